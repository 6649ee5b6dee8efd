package server_test

import (
	"log"
	"os"
	"os/exec"
	"path/filepath"
)

// scene makes a directory with a git repository, and returns a path for a state
// directory.
func scene() (project, state string, clean func()) {
	dir, err := os.MkdirTemp("", "capd")
	if err != nil {
		log.Fatal(err)
	}
	project = filepath.Join(dir, "project")
	for path, text := range map[string]string{"docs/guide.md": "Begin here.", ".env": "TOKEN=x"} {
		at := filepath.Join(project, path)
		if err := os.MkdirAll(filepath.Dir(at), 0o700); err != nil {
			log.Fatal(err)
		}
		if err := os.WriteFile(at, []byte(text), 0o600); err != nil {
			log.Fatal(err)
		}
	}
	git := func(args ...string) {
		cmd := exec.Command("git", append([]string{"-C", project, "-c", "user.name=Ada", "-c", "user.email=ada@example.org"}, args...)...)
		if out, err := cmd.CombinedOutput(); err != nil {
			log.Fatalf("git %v: %v\n%s", args, err, out)
		}
	}
	git("init", "-q", "-b", "main")
	git("add", "docs")
	git("commit", "-q", "-m", "Begin")
	return project, filepath.Join(dir, "state"), func() { os.RemoveAll(dir) }
}
