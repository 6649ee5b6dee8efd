//go:build linux

package tests

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"net"
	"strings"
	"testing"

	"capnproto.org/go/capnp/v3"

	schema "capd/capnp"
	"capd/vat"
)

// exchange is a question and all that a guest can see of the answer, except times.
type exchange struct{ question, answer string }

// asker asks a host as any kind of guest could, and records the answers. It checks nothing
// before it sends it, and goes on after every answer.
type asker struct {
	testing.TB
	ctx     context.Context
	conn    *vat.Conn
	session *vat.Cap
	root    dirCap
	heard   []exchange
	asked   map[string]bool // methods that were called, as "Dir.list"
	held    []*vat.Cap
}

// What is held, and a description of where it came from.
type (
	dirCap struct {
		*vat.Cap
		how string
	}
	fileCap    dirCap
	writerCap  dirCap
	revokerCap dirCap
)

// newAsker connects to a host and restores secret.
func newAsker(t testing.TB, socket string, secret []byte) *asker {
	t.Helper()
	nc, err := net.Dial("unix", socket)
	ok(t, err)
	a := &asker{TB: t, ctx: t.Context(), conn: vat.NewConn(nc, vat.Options{}), asked: map[string]bool{}}
	t.Cleanup(func() { a.conn.Close() })
	a.session = a.hold(a.conn.Bootstrap(a.ctx))
	a.root = a.restoreDir("grant", secret)
	a.held = nil // these two stay
	return a
}

func (a *asker) hold(c *vat.Cap) *vat.Cap {
	a.held = append(a.held, c)
	return c
}

// drop releases everything that was opened.
func (a *asker) drop() {
	for _, c := range a.held {
		c.Release()
	}
	a.held = nil
}

// ask makes one call and records the answer. show may be nil.
func ask[P, R ~capnp.StructKind](a *asker, on *vat.Cap, question string, m vat.Method[P, R], place func(P, *vat.Caps) error, show func(R, *vat.Caps) (string, error)) {
	a.Helper()
	a.asked[m.Name] = true
	text := "done"
	err := vat.Do(a.ctx, on, m, place, func(r R, caps *vat.Caps) (err error) {
		if show != nil {
			text, err = show(r, caps)
		}
		return err
	})
	if err != nil {
		text = a.exception(err)
	}
	a.heard = append(a.heard, exchange{question, text})
}

// exception formats an error as it is on the wire.
func (a *asker) exception(err error) string {
	a.Helper()
	e, isOne := errors.AsType[*vat.Exception](err)
	if !isOne {
		a.Fatalf("an answer that cannot be read: %v", err)
	}
	return fmt.Sprintf("exception %v: %s", e.Type, e.Reason)
}

// open is ask for a method that answers capabilities. They are used as promises.
func open[P, R ~capnp.StructKind](a *asker, on *vat.Cap, question string, m vat.Method[P, R], place func(P, *vat.Caps) error, paths ...[]vat.Field) []*vat.Cap {
	a.Helper()
	a.asked[m.Name] = true
	answer := vat.Send(a.ctx, on, m, place)
	defer answer.Release()
	var caps []*vat.Cap
	for _, path := range paths {
		caps = append(caps, a.hold(answer.Cap(path...)))
	}
	text := "opened"
	if _, _, err := answer.Await(a.ctx); err != nil {
		text = a.exception(err)
	}
	a.heard = append(a.heard, exchange{question, text})
	return caps
}

// at is the path of a capability in results.
func at(fields ...vat.Field) []vat.Field { return fields }

// condition is an IfVersion to be sent; the zero value means none.
type condition struct {
	kind string
	is   []byte
}

var absentOnly = condition{kind: "absent"}

// having returns the condition that a file has this content.
func having(data string) condition {
	v := sha256.Sum256([]byte(data))
	return condition{"is", v[:]}
}

func (c condition) String() string {
	switch c.kind {
	case "":
		return "always"
	case "is":
		return fmt.Sprintf("if %.4x (%d bytes)", c.is, len(c.is))
	}
	return "if " + c.kind
}

// set writes the condition to what alloc returns, unless it is none.
func (c condition) set(alloc func() (schema.IfVersion, error)) error {
	if c.kind == "" {
		return nil
	}
	w, err := alloc()
	if err != nil {
		return err
	}
	switch c.kind {
	case "is":
		return w.SetEquals(c.is)
	case "absent":
		w.SetAbsent()
	}
	return nil
}

// firstError returns the first error, for several setters of one message.
func firstError(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

// bytesText formats bytes, in full if there are few.
func bytesText(b []byte, err error) (string, error) {
	if err != nil || len(b) <= 64 {
		return fmt.Sprintf("%q", b), err
	}
	return fmt.Sprintf("%d bytes, sha256 %x", len(b), sha256.Sum256(b)), nil
}

// statText formats a stat without its time.
func statText(st schema.Stat, err error) (string, error) {
	if err != nil {
		return "", err
	}
	name, err := st.Name()
	raw, rawErr := st.RawName()
	version, versionErr := st.Version()
	if err := firstError(err, rawErr, versionErr); err != nil {
		return "", err
	}
	text := fmt.Sprintf("%v %q %d bytes", st.Type(), name, st.SizeBytes())
	if st.Executable() {
		text += ", executable"
	}
	if len(raw) > 0 {
		text += fmt.Sprintf(", raw %x", raw)
	}
	if len(version) > 0 {
		text += fmt.Sprintf(", version %x", version)
	}
	return text, nil
}

func statsText(l schema.Stat_List, err error) (string, error) {
	if err != nil {
		return "", err
	}
	var all []string
	for i := range l.Len() {
		text, err := statText(l.At(i), nil)
		if err != nil {
			return "", err
		}
		all = append(all, text)
	}
	return strings.Join(all, "; "), nil
}

// wholeNode formats a node with its stat, and which capability came with it.
func wholeNode(n schema.Node, err error) (string, error) {
	if err != nil {
		return "", err
	}
	what, err := nodeText(n, nil)
	if err != nil {
		return "", err
	}
	st, err := statText(n.Stat())
	return fmt.Sprintf("%s, dir %v, file %v: %s", what, n.HasDir(), n.HasFile(), st), err
}

func versionText(b []byte, err error) (string, error) { return fmt.Sprintf("version %x", b), err }
