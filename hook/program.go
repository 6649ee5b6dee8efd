package hook

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"capd/operator"
	"capd/record"
	"capd/vfs"
)

// Bounds of what a program may write.
const (
	maxOutput = 64 << 10 // bytes of its answer
	maxSaid   = 4 << 10  // bytes of its standard error that are logged
)

// program is a hook that is a program of the host's. It runs once for each call.
type program struct {
	hook operator.Hook
	dir  string // its own
	logf func(string, ...any)
}

func newProgram(h operator.Hook, dir string, logf func(string, ...any)) *program {
	return &program{h, filepath.Join(dir, h.Name), logf}
}

// Gone implements [operator.HookCaller].
func (p *program) Gone() bool { return false }

// call is what a program reads: one JSON object.
type call struct {
	Format    int         `json:"v"` // 1
	When      string      `json:"when"`
	Hook      string      `json:"hook"`
	Operation string      `json:"operation"`
	Path      record.Path `json:"path"`
	To        record.Path `json:"to,omitempty"`
	Root      string      `json:"root,omitempty"`
	Subject   string      `json:"subject"`
	Grant     string      `json:"grant"`

	ID     string `json:"id,omitempty"` // this and the rest: after a change
	Result string `json:"result,omitempty"`
	Code   string `json:"code,omitempty"`
	At     int64  `json:"at,omitempty"`
}

func (p *program) calls(when string, c operator.HookedChange) call {
	return call{Format: 1, When: when, Hook: p.hook.Name, Operation: c.Operation, Path: record.Path(c.Path), To: record.Path(c.To), Root: c.Root, Subject: c.Subject, Grant: c.Grant}
}

// answer is what a program writes: one JSON object, and nothing else.
type answer struct {
	Answer *operator.HookAnswer `json:"answer"`
	Reason string               `json:"reason"`
}

// Before implements [operator.HookCaller].
func (p *program) Before(ctx context.Context, c operator.HookedChange) (operator.HookAnswer, string, error) {
	out, err := p.run(ctx, p.calls("before", c))
	if err != nil {
		return "", "", err
	}
	var a answer
	d := json.NewDecoder(bytes.NewReader(out))
	d.DisallowUnknownFields()
	if err := d.Decode(&a); errors.Is(err, io.EOF) {
		return "", "", vfs.Errorf(vfs.Denied, "answered nothing")
	} else if err != nil {
		return "", "", &vfs.Error{Code: vfs.Denied, Msg: "answered what is no answer", Cause: err}
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return "", "", vfs.Errorf(vfs.Denied, "answered more than once")
	}
	if a.Answer == nil {
		return "", "", vfs.Errorf(vfs.Denied, "answered what is no answer")
	}
	return *a.Answer, a.Reason, nil
}

// After implements [operator.HookCaller].
func (p *program) After(ctx context.Context, c operator.HookedChange, o operator.HookOutcome) error {
	in := p.calls("after", c)
	in.ID, in.Result, in.Code, in.At = o.ID, o.Result, o.Code, o.AtMs
	_, err := p.run(ctx, in)
	return err
}

// run runs the program and returns what it wrote. When it has ended, or ctx has, what it has started is killed.
func (p *program) run(ctx context.Context, in call) ([]byte, error) {
	text, err := json.Marshal(in)
	if err != nil {
		return nil, vfs.At("", err)
	}
	if err := os.MkdirAll(p.dir, 0o700); err != nil {
		return nil, &vfs.Error{Code: vfs.Denied, Msg: "could not be started", Cause: err}
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	out := &bounded{max: maxOutput, full: func() { cancel(errOutput) }}
	said := &bounded{max: maxSaid, full: func() {}}
	cmd := exec.CommandContext(ctx, p.hook.Command[0], p.hook.Command[1:]...)
	cmd.Env, cmd.Dir = []string{"PATH=/usr/local/bin:/usr/bin:/bin", "CAPD_HOOK=" + p.hook.Name}, p.dir
	cmd.Stdin, cmd.Stdout, cmd.Stderr = bytes.NewReader(append(text, '\n')), out, said
	cmd.WaitDelay = 100 * time.Millisecond // for what it has started and left behind
	together(cmd)
	if err := cmd.Start(); err != nil {
		return nil, &vfs.Error{Code: vfs.Denied, Msg: "could not be started", Cause: err}
	}
	err = cmd.Wait()
	kill(cmd)
	if text := bytes.TrimSpace(said.buf.Bytes()); len(text) > 0 {
		p.logf("capd: the hook %s says: %s", p.hook.Name, vfs.Printable(string(text)))
	}
	return out.buf.Bytes(), ended(ctx, err)
}

var errOutput = vfs.Errorf(vfs.Denied, "answered more than %d KiB", maxOutput>>10)

// ended returns how a program has ended, as the end of a sentence. err is what Wait returned.
func ended(ctx context.Context, err error) error {
	if cause := context.Cause(ctx); cause != nil {
		return cause
	}
	if e, ok := errors.AsType[*exec.ExitError](err); ok {
		if e.Exited() {
			return vfs.Errorf(vfs.Denied, "ended with %d", e.ExitCode())
		}
		return vfs.Errorf(vfs.Denied, "was ended (%s)", e.ProcessState)
	}
	if err != nil && !errors.Is(err, exec.ErrWaitDelay) {
		return &vfs.Error{Code: vfs.Denied, Msg: "could not be run", Cause: err}
	}
	return nil
}

// bounded keeps the first max bytes that are written, and calls full when there are more.
type bounded struct {
	buf  bytes.Buffer // not embedded: io.Copy would use its ReadFrom
	max  int
	full func()
}

func (b *bounded) Write(p []byte) (int, error) {
	if room := b.max - b.buf.Len(); len(p) > room {
		b.buf.Write(p[:room])
		b.full()
		return len(p), nil
	}
	return b.buf.Write(p)
}
