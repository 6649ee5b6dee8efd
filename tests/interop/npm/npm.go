// Package npm installs what package.json beside it names, as package-lock.json has it: programs of others that capd is compared with and tried by.
package npm

import (
	"context"
	"embed"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
)

//go:embed package.json package-lock.json
var files embed.FS

// Install installs the packages below dir, which exists. It downloads them, and runs no script of theirs.
func Install(ctx context.Context, dir string) error {
	for _, name := range []string{"package.json", "package-lock.json"} {
		b, err := files.ReadFile(name)
		if err == nil {
			err = os.WriteFile(filepath.Join(dir, name), b, 0o600)
		}
		if err != nil {
			return err
		}
	}
	cmd := exec.CommandContext(ctx, "npm", "ci", "--no-audit", "--no-fund", "--ignore-scripts")
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("npm ci: %w: %s", err, out)
	}
	return nil
}
