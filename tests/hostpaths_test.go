package tests

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// touching says which packages may touch the host's files by path, and why. A surface may use only the functions that are
// listed with it.
var touching = map[string]struct {
	why  string
	only string // the functions, separated by spaces; "" for any
}{
	"backend/physical": {why: "a store: a directory of the host"},
	"backend/git":      {why: "a store: a repository of the host"},
	"backend/cas":      {why: "a store: blobs in a directory of the host"},
	"hostfile":         {why: "locks and temporary files for those packages"},
	"state":            {why: "the state directory"},
	"database":         {why: "the database in the state directory"},
	"shelf":            {why: "what changes displaced, in a directory of the state"},
	"hook":             {why: "the programs that the configuration names, each in a directory of its own"},
	"materialize":      {why: "a private copy of a tree"},
	"sandbox":          {why: "what a program that is confined sees of the host"},
	"server":           {why: "opens what the configuration and the operator name, and the sockets"},
	"cmd/capd":         {why: "what the operator or the guest's user names on the command line"},
	"capnp/gen":        {why: "generates code; it is no part of capd"},

	"host":   {"how many descriptors are open", "os.DirFS os.ReadDir"},
	"client": {"the user's socket, and what is read ahead of a hash", "os.CreateTemp os.Remove os.Stat"},
}

// hostPackages are the packages that reach the host's files, and what of them does not: constants, types, errors, and what
// concerns a process or an open file.
var hostPackages = map[string]func(name string) bool{
	"os": func(name string) bool {
		return mode(name) || slices.Contains(strings.Fields(`Args DevNull DirEntry Environ Exit File FileInfo FileMode Getegid Geteuid Getenv Getpid Getuid
			Getwd Hostname Interrupt IsExist IsNotExist Kill LinkError NewFile NewSyscallError PathError PathListSeparator PathSeparator Pipe Process
			ProcessState Root SameFile Setenv Signal Stderr Stdin Stdout SyscallError TempDir UserHomeDir`), name)
	},
	"path/filepath": func(name string) bool {
		return !strings.HasPrefix(name, "Walk") && name != "Glob" && name != "EvalSymlinks"
	},
	"syscall":                  byDescriptor,
	"golang.org/x/sys/unix":    byDescriptor,
	"golang.org/x/sys/windows": byDescriptor,
	"io/ioutil":                func(string) bool { return false },
	"os/exec":                  func(name string) bool { return name == "Cmd" || mode(name) },
	"plugin":                   func(string) bool { return false },
}

// mode reports whether a name of package os or exec is that of a flag, a mode or an error.
func mode(name string) bool {
	return strings.HasPrefix(name, "O_") || strings.HasPrefix(name, "Mode") || strings.HasPrefix(name, "Err")
}

// byDescriptor reports whether a name of a package of system calls is no call that takes a path.
func byDescriptor(name string) bool {
	for _, call := range strings.Fields(`Access Acct Chdir Chmod Chown Chroot Creat CreateFile CreateDirectory Exec Faccessat Fchmodat Fchownat Fstatat
		ForkExec Getxattr InotifyAddWatch Lchown Lgetxattr Link Listxattr Lsetxattr Lstat Mkdir Mkfifo Mknod Mount MoveFile NameToHandle Open Pathconf
		Readlink RawSyscall Remove Rename Rmdir Setxattr StartProcess Statfs Statx Swapon Symlink Syscall Truncate Umount Unlink Utime`) {
		if strings.HasPrefix(name, call) && strings.ToUpper(name) != name && !strings.HasSuffix(name, "_t") && name != "OpenHow" {
			return false
		}
	}
	return name != "Stat"
}

// Code outside the stores, and outside what keeps a host's own files, touches no path of the host.
func TestHostPathsAreTouchedByStoresAlone(t *testing.T) {
	root := moduleRoot(t)
	seen := map[string]bool{}
	ok(t, filepath.WalkDir(root, func(file string, e fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case e.IsDir() && file != root && (strings.HasPrefix(e.Name(), ".") || isModule(file) || e.Name() == "testdata" || e.Name() == "tests"):
			return filepath.SkipDir
		case e.IsDir() || !strings.HasSuffix(file, ".go") || strings.HasSuffix(file, "_test.go"):
			return nil
		}
		rel, err := filepath.Rel(root, file)
		ok(t, err)
		text, err := os.ReadFile(file)
		ok(t, err)
		in := path.Dir(filepath.ToSlash(rel))
		for _, call := range touches(t, string(text)) {
			may, listed := touching[in]
			seen[in] = true
			if !listed || may.only != "" && !slices.Contains(strings.Fields(may.only), call) {
				t.Errorf("%s: %s reaches a path of the host; say in touching why %s may", rel, call, in)
			}
		}
		return nil
	}))
	for in := range maps.Keys(touching) {
		if _, err := os.Stat(filepath.Join(root, in)); err == nil && !seen[in] {
			t.Errorf("%s touches no path of the host; take it out of touching", in)
		}
	}
}

// touches returns what a file of Go code uses of hostPackages.
func touches(t *testing.T, text string) (all []string) {
	t.Helper()
	f, err := parser.ParseFile(token.NewFileSet(), "", text, 0)
	ok(t, err)
	harmless := map[string]func(string) bool{}
	for _, i := range f.Imports {
		imported := strings.Trim(i.Path.Value, `"`)
		of := hostPackages[imported]
		if of == nil {
			continue
		}
		name := path.Base(imported)
		if i.Name != nil {
			name = i.Name.Name
		}
		if name == "." {
			all = append(all, "import . "+imported)
		}
		harmless[name] = of
	}
	ast.Inspect(f, func(n ast.Node) bool {
		if s, is := n.(*ast.SelectorExpr); is {
			if x, is := s.X.(*ast.Ident); is && x.Obj == nil && harmless[x.Name] != nil && !harmless[x.Name](s.Sel.Name) {
				all = append(all, x.Name+"."+s.Sel.Name)
			}
		}
		return true
	})
	return all
}

// What touches a path is found, under whatever name, called or not.
func TestTouchesAreFound(t *testing.T) {
	const planted = `package planted

import (
	system "os"
	"path/filepath"
	"syscall"

	"golang.org/x/sys/unix"
)

func planted(system2 struct{ Open func() }) error {
	read := system.ReadFile
	_, _ = read("/etc/passwd")
	_, _ = filepath.Glob(filepath.Join("/", "*"))
	_, _ = unix.Openat2(unix.AT_FDCWD, "/", &unix.OpenHow{Flags: unix.O_PATH})
	var st unix.Stat_t
	_ = unix.Fstat(0, &st)
	_ = syscall.Unlink("/x")
	_ = system.Getenv("HOME")
	os := system2
	os.Open()
	return unix.Stat("/", &st)
}
`
	want := strings.Fields("system.ReadFile filepath.Glob unix.Openat2 syscall.Unlink unix.Stat")
	if found := touches(t, planted); !slices.Equal(found, want) {
		t.Errorf("found %q, want %q", found, want)
	}
	if found := touches(t, "package planted\nimport . \"os\"\n"); len(found) != 1 {
		t.Errorf("found %q of an import of all names", found)
	}
}
