// Package tests tests capd as a whole.
package tests

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// layers says what each package of this module may import besides itself. It is a
// policy: to add a package, add here where it belongs.
//
// A pattern is an import path. One that ends in /... covers the path itself and
// everything below it. Every layer may import the standard library, except for hostStd,
// which a layer must be allowed.
var layers = []layer{
	// The counters of everybody who serves guests.
	{of: "capd/meter", pure: true},

	// The waist.
	{of: "capd/vfs", may: "capd/meter", pure: true},
	{of: "capd/vfs/search", may: "capd/vfs capd/vfs/diff capd/vfs/ignore", pure: true},
	{of: "capd/vfs/grep", may: "capd/meter capd/vfs capd/vfs/ignore capd/vfs/search", pure: true},
	{of: "capd/vfs/ignore", may: "capd/vfs", pure: true},
	{of: "capd/vfs/feed", may: "capd/meter capd/vfs capd/vfs/diff capd/vfs/membrane github.com/tidwall/btree", pure: true},
	{of: "capd/vfs/lines", may: "capd/meter capd/vfs", pure: true},
	{of: "capd/vfs/edit", may: "capd/vfs", pure: true},
	{of: "capd/vfs/editing", may: "capd/meter capd/vfs capd/vfs/edit capd/vfs/membrane", pure: true},
	{of: "capd/vfs/membrane", may: "capd/meter capd/vfs golang.org/x/sync/semaphore", pure: true},
	{of: "capd/vfs/namespace", may: "capd/vfs capd/vfs/copier capd/vfs/membrane", pure: true},
	{of: "capd/vfs/patch", may: "capd/vfs", pure: true},
	{of: "capd/vfs/step", may: "capd/vfs capd/vfs/edit", pure: true},
	{of: "capd/vfs/pattern", may: "capd/vfs capd/vfs/search golang.org/x/text/...", pure: true},
	{of: "capd/vfs/deny", may: "capd/vfs capd/vfs/membrane capd/vfs/pattern", pure: true},
	{of: "capd/vfs/faultfs", may: "capd/vfs", pure: true},
	{of: "capd/vfs/copier", may: "capd/vfs", pure: true},
	{of: "capd/vfs/diff", may: "capd/vfs", pure: true},
	{of: "capd/vfs/batch", may: "capd/vfs capd/vfs/membrane capd/vfs/diff", pure: true},
	{of: "capd/vfs/change", may: "capd/meter capd/vfs capd/vfs/batch capd/vfs/copier capd/vfs/diff capd/vfs/edit capd/vfs/membrane capd/vfs/patch capd/vfs/step capd/vfs/unified", pure: true},
	{of: "capd/vfs/unified", may: "capd/vfs capd/vfs/diff github.com/aymanbagabas/go-udiff/...", pure: true},
	{of: "capd/vfs/overlay", may: "capd/vfs capd/vfs/batch capd/vfs/diff capd/vfs/unified", pure: true},
	{of: "capd/vfs/vfstest/check", may: "capd/meter capd/vfs capd/vfs/membrane capd/vfs/namespace capd/vfs/search capd/vfs/deny capd/vfs/faultfs capd/vfs/vfstest capd/backend/memory"},
	{of: "capd/vfs/vfstest", may: "capd/meter capd/vfs capd/vfs/change capd/vfs/edit capd/vfs/editing capd/vfs/lines capd/vfs/membrane capd/vfs/namespace capd/vfs/faultfs"},

	// What a host and its operator tell each other: values alone.
	{of: "capd/operator", may: "capd/meter capd/vfs capd/vfs/membrane capd/vfs/diff", pure: true},

	// What several packages need of the host's files.
	{of: "capd/hostfile", may: "golang.org/x/sys/...", host: true},

	// Storage: no backend imports another, or anything above vfs.
	{of: "capd/backend/internal/recent", pure: true},
	{of: "capd/backend/internal/...", may: "capd/hostfile capd/vfs capd/backend/internal/...", host: true},
	{of: "capd/backend/memory", may: "capd/meter capd/vfs github.com/tidwall/btree", pure: true},
	{of: "capd/backend/physical", may: "capd/hostfile capd/backend/internal/... capd/meter capd/vfs golang.org/x/sys/...", host: true},
	{of: "capd/backend/git", may: "capd/hostfile capd/backend/internal/... capd/meter capd/vfs capd/vfs/diff capd/vfs/unified golang.org/x/sys/... github.com/go-git/... github.com/pjbgf/sha1cd/... github.com/klauspost/compress/...", host: true},
	{of: "capd/backend/cas/reapi", may: "capd/backend/internal/... capd/meter capd/vfs capd/backend/cas/... " + remoteExecution, host: true},
	{of: "capd/backend/cas/...", may: "capd/hostfile capd/backend/internal/... capd/vfs capd/vfs/copier capd/backend/cas/... golang.org/x/sys/... google.golang.org/protobuf/... " + remoteExecution, host: true},

	// Trees in archives. A guest's archive comes through its grant, so this is no store.
	{of: "capd/archive", may: "capd/hostfile capd/vfs capd/vfs/copier github.com/klauspost/compress/...", host: true},

	// A tree on the host for programs that do not know capd, and their sandbox.
	{of: "capd/materialize", may: "capd/hostfile capd/vfs capd/vfs/membrane capd/vfs/search capd/vfs/batch capd/vfs/copier capd/vfs/diff golang.org/x/sys/...", host: true},
	{of: "capd/sandbox", may: "capd/hostfile capd/vfs golang.org/x/sys/... golang.org/x/term golang.org/x/net/bpf github.com/landlock-lsm/go-landlock/...", host: true},

	// What a host composes, and its configuration. Neither imports a backend.
	{of: "capd/virtualfs", may: "capd/operator capd/meter capd/vfs capd/vfs/membrane capd/vfs/namespace capd/vfs/batch capd/vfs/deny capd/vfs/diff capd/vfs/overlay"},
	{of: "capd/state", may: "capd/hostfile capd/locator capd/vfs golang.org/x/sys/...", host: true},
	{of: "capd/config", may: "capd/meter capd/operator capd/vfs capd/vfs/deny capd/vfs/membrane github.com/goccy/go-yaml/..."},

	// What a host remembers, and what it decides by.
	{of: "capd/database", may: "capd/hostfile capd/state capd/vfs modernc.org/sqlite/...", host: true},
	{of: "capd/record", may: "capd/database capd/operator capd/vfs golang.org/x/mod/sumdb/...", host: true},
	{of: "capd/shelf", may: "capd/vfs golang.org/x/sys/unix", host: true},
	{of: "capd/history", may: "capd/database capd/shelf capd/vfs"},
	{of: "capd/policy", may: "capd/operator capd/vfs capd/vfs/diff capd/vfs/membrane capd/vfs/pattern", pure: true},
	{of: "capd/approval", may: "capd/database capd/operator capd/record capd/vfs capd/vfs/membrane capd/vfs/search"},
	{of: "capd/hook", may: "capd/database capd/operator capd/record capd/vfs capd/vfs/pattern", host: true},
	{of: "capd/otlp", may: "capd/record capd/version capd/vfs go.opentelemetry.io/otel/...", host: true}, // linked by capd/cmd/capd alone
	{of: "capd/metrics", may: "capd/operator capd/vfs", host: true},

	// A revision of a repository, and what waits for a commit.
	{of: "capd/worktree", may: "capd/vfs capd/vfs/diff capd/vfs/overlay capd/backend/git"},

	// The wire.
	{of: "capd/vat", may: "capd/meter capd/vat/... golang.org/x/sys/unix " + serialization, host: true},
	{of: "capd/vat/...", may: "capd/vat/... " + serialization},
	{of: "capd/capnp", may: "capd/vat " + serialization},
	{of: "capd/capnp/gen", may: serialization + " capnproto.org/go/capnp/v3/std/capnp/schema", host: true},

	// What is served over the wire, and to whom.
	{of: "capd/help", may: "capd/vfs", pure: true},
	{of: "capd/version", pure: true},
	{of: "capd/jsonfile", may: "capd/vfs github.com/go-json-experiment/json/jsontext", pure: true},
	{of: "capd/locator", may: "capd/vfs", pure: true},
	{of: "capd/authority/...", may: "capd/authority/... capd/operator capd/locator capd/meter capd/vfs capd/vfs/feed capd/vfs/membrane capd/vfs/unified " + remembered + " github.com/tidwall/btree"},
	{of: "capd/cap/wire", may: "capd/operator capd/meter capd/vfs capd/vfs/edit capd/vfs/editing capd/vfs/lines capd/vfs/membrane capd/vfs/patch capd/vfs/step capd/vfs/diff capd/vat capd/capnp " + serialization},
	{of: "capd/cap/virtualfs", may: "capd/operator capd/vfs/membrane capd/vfs/diff capd/cap/control capd/cap/dir capd/cap/wire capd/vfs capd/vat capd/capnp capd/help " + serialization},
	{of: "capd/cap/console", may: "capd/operator capd/vfs/membrane capd/meter capd/cap/virtualfs capd/authority capd/cap/control capd/cap/wire capd/vfs capd/vat capd/capnp capd/help capd/version " + serialization},
	{of: "capd/cap/petitioner", may: capLayer + " capd/operator"},
	{of: "capd/cap/session", may: capLayer + " capd/cap/petitioner capd/operator"},
	{of: "capd/cap/dir", may: capLayer + " capd/archive capd/vfs/copier"},
	{of: "capd/cap/...", may: capLayer},
	{of: "capd/host", may: "golang.org/x/sys/unix capd/cap/virtualfs capd/operator capd/meter capd/authority capd/locator capd/cap/console capd/cap/petitioner capd/cap/session capd/cap/wire capd/vat capd/vfs capd/vfs/membrane", host: true},

	// The client's side of the wire.
	{of: "capd/client/console", may: "capd/operator capd/vfs/membrane capd/meter capd/client capd/vfs/diff capd/cap/wire capd/vfs capd/vat capd/capnp " + serialization, host: true},
	{of: "capd/client/...", may: "capd/client/... capd/jsonfile capd/operator capd/cap/wire capd/locator capd/vfs capd/vfs/edit capd/vfs/editing capd/vfs/lines capd/vfs/membrane capd/vfs/patch capd/vfs/step capd/vat capd/capnp " + serialization, host: true},

	// Guests that speak other protocols, served by a guest of capd.
	{of: "capd/front/web", may: "capd/client capd/locator capd/vfs", host: true},
	{of: "capd/front/roots", may: "capd/vfs", pure: true},
	{of: "capd/front/openwop", may: "capd/client capd/front/roots capd/vfs", host: true},
	{of: "capd/front/mcp", may: "capd/client capd/front/roots capd/version capd/vfs capd/vfs/edit capd/vfs/editing capd/vfs/lines capd/vfs/membrane capd/vfs/search capd/vfs/step github.com/go-json-experiment/json/... github.com/modelcontextprotocol/go-sdk/mcp", host: true},

	// Backends and capabilities meet here: all of a host but its command line.
	{of: "capd/server", may: "capd/hostfile capd/state capd/config capd/worktree capd/host capd/operator capd/authority capd/locator capd/meter capd/metrics capd/materialize capd/version capd/virtualfs capd/backend/... capd/vfs capd/vfs/batch capd/vfs/membrane capd/vfs/namespace " +
		"capd/shelf capd/vfs/deny capd/vfs/diff capd/vfs/overlay capd/vfs/unified github.com/go-git/... " + remembered, host: true},
	{of: "capd/cmd/capd", may: "...", host: true},
	{of: "capd/cmd/capd/...", may: "...", host: true},
	{of: "capd/tests/...", may: "...", host: true},
}

type layer struct {
	of   string // the packages; the first layer that covers a package applies
	may  string // the allowed imports besides the standard library, separated by spaces
	host bool   // hostStd is allowed, too
	pure bool   // nothing that it imports, even indirectly, imports hostStd, apart from the standard library itself
}

// serialization is the part of go-capnp that capd uses: messages, and the generated
// structs of rpc.capnp. Its rpc and server packages are not allowed.
const serialization = "capnproto.org/go/capnp/v3 capnproto.org/go/capnp/v3/std/capnp/rpc"

// remembered is what keeps a host's state, and decides by it.
const remembered = "capd/database capd/record capd/history capd/policy capd/approval capd/hook"

// remoteExecution is the Remote Execution API and the packages that speak it.
const remoteExecution = "github.com/bazelbuild/remote-apis/... google.golang.org/grpc/... google.golang.org/protobuf/... google.golang.org/genproto/..."

// capLayer translates between the wire and vfs. It knows neither who holds what nor
// where anything is stored.
const capLayer = "capd/cap/control capd/cap/dir capd/cap/file capd/cap/wire capd/meter " +
	"capd/vfs capd/vfs/change capd/vfs/diff capd/vfs/edit capd/vfs/editing capd/vfs/grep capd/vfs/ignore capd/vfs/lines capd/vfs/membrane capd/vfs/search capd/vfs/step capd/vat capd/capnp capd/help " + serialization

// hostStd is the part of the standard library that reaches the host, without packages
// that only read and write text.
const (
	hostStd  = "os/... net/... syscall plugin path/filepath io/ioutil log/syslog"
	textOnly = "net/url net/netip net/textproto"
)

func reachesHost(std string) bool { return covers(hostStd, std) && !covers(textOnly, std) }

// required packages must exist: a missing package would satisfy every rule.
const required = "capd/vfs capd/vfs/membrane capd/vfs/namespace capd/vfs/search capd/vfs/ignore capd/vfs/pattern capd/vfs/deny capd/vfs/faultfs capd/vfs/vfstest capd/backend/memory capd/backend/physical " +
	"capd/vat capd/capnp capd/help capd/locator capd/cap/dir capd/cap/file capd/cap/control capd/cap/console " +
	"capd/vfs/diff capd/vfs/batch capd/vfs/overlay capd/backend/git capd/backend/cas capd/materialize capd/sandbox capd/virtualfs capd/config capd/state capd/database capd/record capd/metrics capd/otlp capd/server capd/cap/virtualfs " +
	"capd/cap/session capd/cap/petitioner capd/operator capd/approval capd/hook capd/authority capd/host capd/client capd/client/console capd/cmd/capd"

// platforms are checked separately, since their files differ.
var platforms = []string{"linux", "darwin", "windows"}

// pkg is a package as go list describes it, without tests.
type pkg struct {
	ImportPath string
	Standard   bool
	Imports    []string
	Deps       []string
}

// packages returns this module's packages and all their dependencies.
func packages(t *testing.T, goos string) map[string]pkg {
	t.Helper()
	cmd := exec.Command("go", "list", "-deps", "-json=ImportPath,Standard,Imports,Deps", "capd/...")
	cmd.Env = append(os.Environ(), "GOOS="+goos, "GOARCH=amd64", "CGO_ENABLED=0")
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("go list: %v\n%s", err, stderr.String())
	}
	all := map[string]pkg{}
	for dec := json.NewDecoder(bytes.NewReader(out)); ; {
		var p pkg
		if err := dec.Decode(&p); errors.Is(err, io.EOF) {
			return all
		} else if err != nil {
			t.Fatal(err)
		}
		all[p.ImportPath] = p
	}
}

func TestLayers(t *testing.T) {
	for _, goos := range platforms {
		t.Run(goos, func(t *testing.T) {
			all := packages(t, goos)
			for _, path := range ours(all) {
				for _, problem := range violations(all, path) {
					t.Error(problem)
				}
			}
		})
	}
}

// violations returns what is wrong with the imports of the package at path.
func violations(all map[string]pkg, path string) (problems []string) {
	i := slices.IndexFunc(layers, func(l layer) bool { return covers(l.of, path) })
	if i < 0 {
		return []string{fmt.Sprintf("%s belongs to no layer; say in layers what it may import", path)}
	}
	l := layers[i]
	for _, imported := range all[path].Imports {
		switch {
		case all[imported].Standard && (l.host || !reachesHost(imported)):
		case !all[imported].Standard && covers(l.may, imported):
		default:
			problems = append(problems, fmt.Sprintf("%s imports %s", path, imported))
		}
	}
	if l.pure {
		for _, dep := range all[path].Deps {
			for _, imported := range all[dep].Imports {
				if !all[dep].Standard && reachesHost(imported) {
					problems = append(problems, fmt.Sprintf("%s depends on %s, which imports %s", path, dep, imported))
				}
			}
		}
	}
	return problems
}

// The check finds violations.
func TestLayersCatch(t *testing.T) {
	all := map[string]pkg{}
	for _, std := range []string{"context", "os", "net/http", "path/filepath", "syscall"} {
		all[std] = pkg{ImportPath: std, Standard: true, Imports: []string{"syscall"}}
	}
	add := func(path string, imports ...string) {
		all[path] = pkg{ImportPath: path, Imports: imports, Deps: imports}
	}
	add("golang.org/x/text/host", "os")
	add("golang.org/x/text/pure", "context")
	for _, c := range []struct {
		path, imports string
		ok            bool
	}{
		{"capd/vfs", "context", true},
		{"capd/vfs", "os", false},
		{"capd/vfs", "net/http", false},
		{"capd/vfs", "path/filepath", false},
		{"capd/vfs", "golang.org/x/text/pure", false},
		{"capd/vfs", "capd/vfs/membrane", false},
		{"capd/vfs/search", "capd/vfs/membrane", false},
		{"capd/vfs/membrane", "capd/vfs/namespace", false},
		{"capd/vfs/namespace", "capd/vfs/membrane", true},
		{"capd/backend/memory", "capd/vfs/membrane", false},
		{"capd/vfs/pattern", "golang.org/x/text/pure", true},
		{"capd/vfs/pattern", "golang.org/x/text/host", false},
		{"capd/backend/memory", "capd/backend/physical", false},
		{"capd/backend/memory", "capd/cap/dir", false},
		{"capd/backend/physical", "os", true},
		{"capd/backend/new", "capd/vfs", false},
		{"capd/vat", "capd/vfs", false},
		{"capd/vat", "capnproto.org/go/capnp/v3/rpc", false},
		{"capd/cap/dir", "os", false},
		{"capd/cap/dir", "capd/backend/memory", false},
		{"capd/cap/dir", "capd/vfs", true},
		{"capd/cap/dir", "capd/authority", false},
		{"capd/cap/console", "capd/authority", true},
		{"capd/client", "capd/cap/dir", false},
		{"capd/client/console", "capd/cap/wire", true},
		{"capd/client/console", "capd/cap/console", false},
		{"capd/cap/wire", "capd/operator", true},
		{"capd/cap/wire", "capd/authority", false},
		{"capd/state", "capd/backend/physical", false},
		{"capd/server", "capd/backend/physical", true},
		{"capd/server", "capd/client", false},
		{"capd/cmd/capd", "capd/backend/physical", true},
	} {
		add(c.path, c.imports)
		if problems := violations(all, c.path); (problems == nil) != c.ok {
			t.Errorf("%s imports %s: %v", c.path, c.imports, problems)
		}
	}
}

// serving is the packages of a host. No client links them.
const serving = "capd/cap/console capd/cap/control capd/cap/dir capd/cap/file capd/cap/session capd/cap/virtualfs " +
	"capd/authority/... capd/virtualfs capd/host capd/server capd/backend/... capd/help " + remembered

// layers could allow what these tests forbid, so they are separate.
func TestLayersThatNobodyMayCross(t *testing.T) {
	for _, goos := range platforms {
		t.Run(goos, func(t *testing.T) {
			all := packages(t, goos)
			for _, path := range ours(all) {
				p := all[path]
				depends := func(patterns string) string {
					i := slices.IndexFunc(p.Deps, func(dep string) bool { return covers(patterns, dep) })
					if i < 0 {
						return ""
					}
					return p.Deps[i]
				}
				if dep := depends("capnproto.org/go/capnp/v3/rpc/... capnproto.org/go/capnp/v3/server/..."); dep != "" {
					t.Errorf("%s links %s, which a hostile peer can crash", path, dep)
				}
				store, surface := depends("capd/backend/..."), depends("capd/cap/... capd/authority/...")
				if store != "" && surface != "" && !covers("capd/server capd/cmd/capd/... capd/tests/...", path) {
					t.Errorf("%s links both %s and %s; only server may", path, store, surface)
				}
				if dep := depends(serving); dep != "" && covers("capd/client/... capd/cap/wire capd/operator", path) {
					t.Errorf("%s links %s, which serves", path, dep)
				}
				if dep := depends("capd/tests/... capd/vfs/vfstest/... capd/vfs/faultfs testing"); dep != "" &&
					covers("capd/cmd/capd/... capd/server capd/state capd/backend/... capd/client/... capd/vat", path) {
					t.Errorf("%s links %s, which is for tests", path, dep)
				}
			}
		})
	}
}

// A missing package breaks no rule, so each must exist.
func TestLayersAreAllThere(t *testing.T) {
	all := packages(t, "linux")
	var missing []string
	for _, path := range strings.Fields(required) {
		if all[path].ImportPath == "" {
			missing = append(missing, path)
		}
	}
	if missing != nil {
		t.Errorf("not there: %s", strings.Join(missing, ", "))
	}
}

// copiesHere opens what the user of a guest's command copies from or to. Nothing is served from there.
const copiesHere = "cmd/capd/hostdir.go"

// Host files enter a backend in one way only, which grep can find.
func TestAuthorityEntersByOpenAmbient(t *testing.T) {
	root := moduleRoot(t)
	found := 0
	err := filepath.WalkDir(root, func(path string, e fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case e.IsDir() && path != root && (strings.HasPrefix(e.Name(), ".") || isModule(path)):
			return filepath.SkipDir
		case e.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go"):
			return nil
		}
		rel, err := filepath.Rel(root, path)
		if err != nil {
			return err
		}
		rel = filepath.ToSlash(rel)
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		if strings.HasPrefix(rel, "backend/") && !strings.Contains(rel, "/internal/") {
			found += checkBackend(t, rel, file)
		}
		if !strings.HasPrefix(rel, "server/") && !strings.HasPrefix(rel, "backend/") && rel != copiesHere {
			ast.Inspect(file, func(n ast.Node) bool {
				if s, ok := n.(*ast.SelectorExpr); ok && ambientName(s.Sel.Name) {
					t.Errorf("%s: only server calls %s", rel, s.Sel.Name)
				}
				return true
			})
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if found == 0 {
		t.Error("no backend has an OpenAmbient; this test looks at the wrong thing")
	}
}

// isModule reports whether dir is a module of its own, such as the benchmarks. Nothing
// here depends on it.
func isModule(dir string) bool {
	_, err := os.Stat(filepath.Join(dir, "go.mod"))
	return err == nil
}

// ambientName reports whether a function of that name may take host paths: OpenAmbient,
// and FindAmbient, which finds what to open.
func ambientName(name string) bool { return name == "OpenAmbient" || name == "FindAmbient" }

// checkBackend reports exported functions without an ambient name that take text, since
// a host path is text. It returns the number of functions with an ambient name.
func checkBackend(t *testing.T, rel string, file *ast.File) (ambient int) {
	t.Helper()
	for _, decl := range file.Decls {
		f, ok := decl.(*ast.FuncDecl)
		if !ok || f.Recv != nil || !f.Name.IsExported() {
			continue
		}
		if ambientName(f.Name.Name) {
			ambient++
			continue
		}
		for _, param := range f.Type.Params.List {
			if takesText(param.Type) {
				t.Errorf("%s: %s takes text: authority enters by OpenAmbient alone", rel, f.Name.Name)
			}
		}
	}
	return ambient
}

// takesText reports whether a type may carry a path or an open file.
func takesText(e ast.Expr) bool {
	text := false
	ast.Inspect(e, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.Ident:
			text = text || n.Name == "string" || n.Name == "any"
		case *ast.SelectorExpr:
			if x, ok := n.X.(*ast.Ident); ok && x.Name == "os" {
				text = true
			}
		}
		return true
	})
	return text
}

func moduleRoot(t *testing.T) string {
	t.Helper()
	out, err := exec.Command("go", "env", "GOMOD").Output()
	if err != nil {
		t.Fatal(err)
	}
	return filepath.Dir(strings.TrimSpace(string(out)))
}

// ours returns this module's packages, sorted.
func ours(all map[string]pkg) []string {
	var paths []string
	for path := range all {
		if covers("capd/...", path) {
			paths = append(paths, path)
		}
	}
	slices.Sort(paths)
	return paths
}

// covers reports whether one of patterns, separated by spaces, covers path.
func covers(patterns, path string) bool {
	for pattern := range strings.FieldsSeq(patterns) {
		if prefix, deep := strings.CutSuffix(pattern, "..."); deep {
			if strings.HasPrefix(path+"/", prefix) {
				return true
			}
		} else if path == pattern {
			return true
		}
	}
	return false
}
