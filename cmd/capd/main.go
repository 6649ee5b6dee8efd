// Command capd gives a program a directory without giving it the machine. It is the command
// line of a host and of its guests:
//
//	capd serve .                                        serve this directory
//	capd grant reviewer --path project/docs --read-only give a guest a part; prints a locator
//	capd ls --cap LOCATOR                               list it, as the guest
//	capd revoke reviewer                                take it back
//
// "capd --help" lists all commands, and README.md introduces them.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"unicode/utf8"

	"github.com/alecthomas/kong"

	"capd/client"
	"capd/sandbox"
	"capd/version"
	"capd/vfs"
	"capd/vfs/diff"
)

// Exit codes.
const (
	exitRefused = 1 // the host or the system refused
	exitUsage   = 2
)

type commands struct {
	Serve       serveCommand       `cmd:"" group:"host" help:"Serve a directory until interrupted."`
	Grant       grantCommand       `cmd:"" group:"host" help:"Give a guest a capability and print its locator."`
	Invite      inviteCommand      `cmd:"" group:"host" help:"Let somebody ask for capabilities, and print a locator for that."`
	Invites     invitesCommand     `cmd:"" group:"host" help:"List who may ask for capabilities, or end that."`
	Explain     explainCommand     `cmd:"" group:"host" help:"Say whether a guest may do something, and what decides."`
	Roots       rootsCommand       `cmd:"" group:"host" help:"List the roots: what the mounts are for."`
	Policy      policyCommand      `cmd:"" group:"host" help:"Show the rules for guests, set them, or show what they were."`
	Grants      grantsCommand      `cmd:"" group:"host" help:"List the grants."`
	Revoke      revokeCommand      `cmd:"" group:"host" help:"Take back everything a guest holds."`
	SetWritable setWritableCommand `cmd:"" group:"host" help:"Lock a guest's grants for writing, or unlock them."`
	Limit       limitCommand       `cmd:"" group:"host" help:"Change how much a guest may hold."`
	Watch       watchCommand       `cmd:"" group:"host" help:"Show what happens, and have changes that need an approval wait."`
	Asks        asksCommand        `cmd:"" group:"host" help:"List the changes that wait for an approval."`
	Ask         askCommand         `cmd:"" group:"host" help:"Show a change that waits for an approval, or decide about it."`
	Approvals   approvalsCommand   `cmd:"" group:"host" help:"List what is approved for always, or end it."`
	Hooks       hooksCommand       `cmd:"" group:"host" help:"Show the hooks: what is asked before changes or told after them; or remove one."`
	Status      statusCommand      `cmd:"" group:"host" help:"Show what the host holds, and what each guest uses of its limits."`
	State       stateCommand       `cmd:"" group:"host" help:"Check, copy or print what the host keeps."`
	Audit       auditCommand       `cmd:"" group:"host" help:"Show who changed what, and check that the record of it is whole."`

	Mounts    mountsCommand    `cmd:"" group:"tree" help:"List what is mounted."`
	Mount     mountCommand     `cmd:"" group:"tree" help:"Mount a directory, a git revision, memory, a snapshot or an overlay."`
	Unmount   unmountCommand   `cmd:"" group:"tree" help:"Remove a mount."`
	Diff      diffCommand      `cmd:"" group:"tree" help:"Show the changes in an overlay or a git mount."`
	Apply     applyCommand     `cmd:"" group:"tree" help:"Apply the changes in an overlay to the tree below it."`
	Revert    revertCommand    `cmd:"" group:"tree" help:"Drop changes."`
	Commit    commitCommand    `cmd:"" group:"tree" help:"Commit the changes in a git mount."`
	Snapshot  snapshotCommand  `cmd:"" group:"tree" help:"Store a tree by its content, and print its digest."`
	Kept      keptCommand      `cmd:"" group:"tree" help:"List changes that are kept for the next start."`
	Scratch   scratchCommand   `cmd:"" group:"tree" help:"Show and remove what agents keep for themselves."`
	Snapshots snapshotsCommand `cmd:"" group:"tree" help:"List snapshots, forget one, clean the store."`

	MCP mcpCommand `cmd:"" name:"mcp" group:"front" help:"Give directories to an agent that speaks MCP."`

	Run runCommand `cmd:"" group:"run" help:"Run a program on a tree, confined, and sync back what it changes."`

	Ls        lsCommand        `cmd:"" group:"guest" help:"List a directory."`
	Tree      treeCommand      `cmd:"" group:"guest" help:"Show everything below a directory."`
	Cat       catCommand       `cmd:"" group:"guest" help:"Write a file, or some of its lines, to standard output."`
	Get       getCommand       `cmd:"" group:"guest" help:"Copy a file or a directory to this machine."`
	Put       putCommand       `cmd:"" group:"guest" help:"Make standard input, or a file or directory of this machine, the content of a path."`
	Edit      editCommand      `cmd:"" group:"guest" help:"Replace a text, or lines, of a file."`
	Append    appendCommand    `cmd:"" group:"guest" help:"Add standard input at the end of a file."`
	Stat      statCommand      `cmd:"" group:"guest" help:"Show what a path is, with a file's version."`
	Mkdir     mkdirCommand     `cmd:"" group:"guest" help:"Make a directory."`
	Cp        cpCommand        `cmd:"" group:"guest" help:"Copy a file or a directory within what the host serves."`
	Mv        mvCommand        `cmd:"" group:"guest" help:"Move or rename a file, a directory or a link."`
	Ln        lnCommand        `cmd:"" group:"guest" help:"Make a symbolic link."`
	Chmod     chmodCommand     `cmd:"" group:"guest" help:"Say whether files can be executed."`
	Touch     touchCommand     `cmd:"" group:"guest" help:"Set when files were modified, and make those that are missing."`
	Rm        rmCommand        `cmd:"" group:"guest" help:"Remove a file, a link or a directory."`
	Archive   archiveCommand   `cmd:"" group:"guest" help:"Write a directory as a zip or tar file."`
	Extract   extractCommand   `cmd:"" group:"guest" help:"Extract an archive that the host serves into a directory."`
	Glob      globCommand      `cmd:"" group:"guest" help:"Find paths by pattern."`
	Grep      grepCommand      `cmd:"" group:"guest" help:"Search the contents of files."`
	Changes   changesCommand   `cmd:"" group:"guest" help:"Show what changes, as it does."`
	Changed   changedCommand   `cmd:"" group:"guest" help:"Say which files are not as they were."`
	Patch     patchCommand     `cmd:"" group:"guest" help:"Apply a patch from standard input to the files that it names: all or none."`
	History   historyCommand   `cmd:"" group:"guest" help:"Show what was changed, and what can be undone."`
	Undo      undoCommand      `cmd:"" group:"guest" help:"Take back changes."`
	Change    stepsCommand     `cmd:"" group:"guest" help:"Make steps from standard input, all or none: put, edit, remove, move, mkdir."`
	JSON      jsonCommand      `cmd:"" name:"json" group:"guest" help:"Read and change single values of a JSON file."`
	Help      helpCommand      `cmd:"" group:"guest" help:"Show the help of the capability."`
	Request   requestCommand   `cmd:"" group:"guest" help:"Ask for a capability with an invitation, wait, and print its locator."`
	Attenuate attenuateCommand `cmd:"" group:"guest" help:"Make a narrower capability and print its locator."`

	Config     configCommand     `cmd:"" group:"learn" help:"Check a configuration, or print its schema."`
	Tour       tourCommand       `cmd:"" group:"learn" help:"Show capd at work, in a scratch directory."`
	Completion completionCommand `cmd:"" group:"learn" help:"Print a script that completes commands in a shell."`
	Man        manCommand        `cmd:"" group:"learn" help:"Print a manual page, or write all of them."`
	Version    versionCommand    `cmd:"" group:"learn" help:"Print the version."`

	PrintVersion versionFlag `name:"version" help:"Print the version."`
}

// env is the environment in which a command runs.
type env struct {
	context.Context
	stdin  io.Reader
	stdout *output
	stderr io.Writer
	opened []io.Closer // connections, to close when the command has ended
	hangup *hangup     // may be nil
}

func newEnv(ctx context.Context, stdin io.Reader, stdout, stderr io.Writer) *env {
	return &env{ctx, stdin, newOutput(stdout), stderr, nil, nil}
}

// close closes what the command has opened.
func (e *env) close() {
	for _, c := range e.opened {
		c.Close()
	}
	e.opened = nil
}

// interrupts are the signals that end capd.
var interrupts = []os.Signal{os.Interrupt, syscall.SIGTERM, syscall.SIGHUP}

// init keeps the process's first thread for main alone. The kernel prefers that thread for
// a signal that is sent to the process, and if it waits for a disk that hangs, nobody gets
// the signal.
func init() { runtime.LockOSThread() }

func main() {
	if sandbox.IsInit(os.Args) {
		sandbox.Init(os.Args)
	}
	// If the reader of an output has gone, the writer gets an error, so that what it
	// could not deliver is taken back.
	signal.Ignore(syscall.SIGPIPE)
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	hangup := newHangup(stop)
	context.AfterFunc(ctx, func() { // a second signal ends the program as usual
		stop()
		hangup.stop()
	})
	code := make(chan int)
	go func() {
		e := newEnv(ctx, os.Stdin, os.Stdout, os.Stderr)
		e.hangup = hangup
		code <- run(e, os.Args[1:])
	}()
	ended := <-code
	stop()
	os.Exit(ended)
}

func run(e *env, args []string) int {
	defer e.close()
	var c commands
	ended := -1
	p, err := newParser(e, &c, func(code int) {
		ended = code
		panic(kongExit{})
	})
	if err != nil {
		panic(err)
	}
	if len(args) > 0 && args[0] == completing {
		return complete(e, p.Model, args[1:])
	}
	for _, arg := range args {
		if !utf8.ValidString(arg) {
			return report(e, vfs.Errorf(vfs.Invalid, "an argument is not valid UTF-8; nothing was done"))
		}
	}
	k, err := parse(p, args)
	if ended > 0 {
		return ended
	}
	if err == nil && ended < 0 {
		if err = k.Run(e); ofHost(k) {
			err = toOperator(err)
		}
	}
	if unwritten := e.stdout.Flush(); err == nil {
		err = unwritten
	}
	return report(e, err)
}

func newParser(e *env, c *commands, exit func(int)) (*kong.Kong, error) {
	return kong.New(c,
		kong.Name("capd"),
		kong.Description("Give a program a directory without giving it the machine.\n\nA host serves a tree and grants capabilities to it; a guest uses one, narrows it and passes it on; the host takes it back at any time."),
		kong.UsageOnError(),
		kong.ConfigureHelp(kong.HelpOptions{Compact: true, WrapUpperBound: 100}),
		kong.ExplicitGroups([]kong.Group{
			{Key: "host", Title: "For the host:", Description: "These find the running host by its state directory (--state)."},
			{Key: "tree", Title: "For the host, about its tree:"},
			{Key: "run", Title: "For either:"},
			{Key: "front", Title: "For other programs:"},
			{Key: "guest", Title: "For a guest:", Description: "These need a locator: --cap LOCATOR, --cap @FILE or $CAPD_CAP. A path is relative to the capability and never starts with a slash."},
			{Key: "learn", Title: "To learn:"},
		}),
		kong.Writers(e.stdout, e.stderr),
		kong.Exit(exit),
	)
}

// ofHost reports whether k is a command for the host's operator.
func ofHost(k *kong.Context) bool {
	g := k.Selected().ClosestGroup()
	return g != nil && (g.Key == "host" || g.Key == "tree")
}

// kongExit unwinds kong after --help.
type kongExit struct{}

func parse(p *kong.Kong, args []string) (k *kong.Context, err error) {
	defer func() {
		if r := recover(); r != nil {
			if _, ok := r.(kongExit); !ok {
				panic(r)
			}
		}
	}()
	if len(args) == 0 {
		args = []string{"--help"}
	}
	return p.Parse(withNumber(commandFirst(args)))
}

// withNumber joins --lines with a number after it that begins with a minus, which would be taken for a flag.
func withNumber(args []string) []string {
	for i := range len(args) - 1 {
		if args[i] == "--lines" && len(args[i+1]) > 1 && args[i+1][0] == '-' && '0' <= args[i+1][1] && args[i+1][1] <= '9' {
			return slices.Concat(args[:i], []string{args[i] + "=" + args[i+1]}, args[i+2:])
		}
	}
	return args
}

// commandFirst moves flags that most commands take behind the command, if they were given
// before it.
func commandFirst(args []string) []string {
	at := 0
	for at < len(args) {
		switch flag, _, is := strings.Cut(args[at], "="); {
		case flag != "--cap" && flag != "--state":
			if at == 0 {
				return args
			}
			return slices.Concat(args[at:at+1], args[:at], args[at+1:])
		case is:
			at++
		default:
			at += 2
		}
	}
	return args
}

// usageError is the error for a wrong command line.
type usageError struct{ msg string }

func (u usageError) Error() string { return u.msg }

// localError is an error on this side. It has no code, since the host does not know it.
type localError struct{ msg string }

func (l localError) Error() string { return l.msg }

// report prints an error as "capd: code: message" and returns the exit code.
func report(e *env, err error) int {
	var parse *kong.ParseError
	var usage usageError
	var local localError
	var ended exitError
	var unwritten outputError
	switch {
	case err == nil:
		return 0
	case errors.As(err, &ended):
		if ve, ok := errors.AsType[*vfs.Error](err); ok { // why it did not start
			fmt.Fprintf(e.stderr, "capd: %v\n", speak(ve))
		}
		return int(ended)
	case errors.As(err, &unwritten):
		return e.stdout.report(e.stderr, unwritten)
	case errors.As(err, &local):
		fmt.Fprintf(e.stderr, "capd: %s\n", local.msg)
		return exitRefused
	case errors.As(err, &usage):
		fmt.Fprintf(e.stderr, "capd: usage: %s\n", usage.msg)
		return exitUsage
	case errors.As(err, &parse):
		fmt.Fprintf(e.stderr, "capd: usage: %s\n", parse.Error())
		name := "capd"
		for _, word := range strings.Fields(parse.Context.Command()) {
			if strings.HasPrefix(word, "<") { // an argument
				break
			}
			name += " " + word
		}
		fmt.Fprintf(e.stderr, "See %s --help\n", name)
		return exitUsage
	case errors.Is(err, context.Canceled):
		fmt.Fprintln(e.stderr, "capd: interrupted")
		return 130
	}
	if c, ok := errors.AsType[*diff.Conflicts](err); ok {
		fmt.Fprintf(e.stderr, "capd: %s\n", c.Unwrap())
		for _, p := range c.Paths {
			fmt.Fprintf(e.stderr, "  %s: %s\n", vfs.Printable(p.Path), p.Why)
		}
		return exitRefused
	}
	if u, ok := errors.AsType[*client.Unlisted](err); ok {
		for _, missed := range u.Errors {
			fmt.Fprintf(e.stderr, "capd: %v\n", speak(missed))
		}
		if u.More > 0 {
			fmt.Fprintf(e.stderr, "capd: and %d more could not be listed\n", u.More)
		}
		return exitRefused
	}
	if ve, ok := errors.AsType[*vfs.Error](err); ok {
		fmt.Fprintf(e.stderr, "capd: %v\n", speak(ve))
	} else {
		fmt.Fprintf(e.stderr, "capd: %s: %s\n", vfs.CodeOf(err), err)
	}
	return exitRefused
}

type versionCommand struct{}

func (versionCommand) Help() string {
	return `Examples:
  capd version`
}

func (versionCommand) Run(e *env) error {
	fmt.Fprintln(e.stdout, "capd", version.Text())
	return nil
}

// versionFlag is --version. It needs no other argument.
type versionFlag bool

// BeforeReset prints the version before missing arguments are reported.
func (versionFlag) BeforeReset(k *kong.Kong) error {
	fmt.Fprintln(k.Stdout, "capd", version.Text())
	k.Exit(0)
	return nil
}
