package cap_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"strings"
	"testing"

	"capd/cap/dir"
	"capd/cap/wire"
	schema "capd/capnp"
	"capd/client"
	"capd/tests/scene"
	"capd/vat"
	"capd/vfs"
	"capd/vfs/membrane"
	"capd/vfs/vfstest"
)

// If writes are lost, commit refuses the content unless it is whole.

// slow is a directory that takes what is put into it in steps.
type slow struct {
	vfs.Dir
	step chan struct{} // a read of what is put may begin
}

func (d *slow) Replace(ctx context.Context, name string, r io.Reader, c vfs.If) (vfs.Version, error) {
	return d.Dir.Replace(ctx, name, &slowReader{ctx, d.step, r}, c)
}

type slowReader struct {
	ctx  context.Context
	step chan struct{}
	r    io.Reader
}

func (r *slowReader) Read(p []byte) (int, error) {
	select {
	case <-r.step:
	case <-r.ctx.Done():
		return 0, context.Cause(r.ctx)
	}
	return r.r.Read(p)
}

// dropped calls Writer.write as a caller that does not keep its promise: releasing the
// answer cancels the call.
var dropped = func() vat.Method[schema.Writer_write_Params, vat.Empty] {
	m := schema.Writer_write
	m.Stream = false
	return m
}()

// sending sends a write and does not wait.
func sending(t testing.TB, w *vat.Cap, data string) *vat.Answer[vat.Empty] {
	return vat.Send(t.Context(), w, dropped, func(_ schema.Writer_write_Params, c *vat.Caps) error {
		return c.SetData(schema.Writer_write_Params_data, []byte(data))
	})
}

func TestLostWrite(t *testing.T) {
	for _, row := range []struct {
		name string
		want vfs.Code
		// lose writes to w. A step lets the host take some of it.
		lose func(t *testing.T, w *vat.Cap, step func())
	}{
		{"none is", "", func(t *testing.T, w *vat.Cap, step func()) {
			sending(t, w, "new")
		}},
		{"before the writer is there", vfs.Invalid, func(t *testing.T, w *vat.Cap, step func()) {
			sending(t, w, "one ")
			sending(t, w, "two ").Release()
			sending(t, w, "three")
		}},
		{"the only one", vfs.Invalid, func(t *testing.T, w *vat.Cap, step func()) {
			sending(t, w, "one").Release()
		}},
		{"queued", vfs.Invalid, func(t *testing.T, w *vat.Cap, step func()) {
			step()
			ok(t, write(t, w, "one "))
			sending(t, w, "two ") // runs, and nobody takes it
			sending(t, w, "three").Release()
			sending(t, w, "four")
		}},
		{"sent while nobody takes any", vfs.Invalid, func(t *testing.T, w *vat.Cap, step func()) {
			step()
			ok(t, write(t, w, "one "))
			sending(t, w, "two ").Release() // it runs by then, or is about to
			sending(t, w, "three")
		}},
		{"running, and taken in part", vfs.Invalid, func(t *testing.T, w *vat.Cap, step func()) {
			step()
			large := sending(t, w, pattern(wire.MaxChunk))
			step()
			large.Release()
			sending(t, w, "more")
		}},
		{"refused", vfs.Limit, func(t *testing.T, w *vat.Cap, step func()) {
			const calls = 4096 // Limits.Calls
			for range calls + 1 {
				sending(t, w, "x")
			}
		}},
		{"too large", vfs.TooLarge, func(t *testing.T, w *vat.Cap, step func()) {
			step()
			sending(t, w, pattern(wire.MaxChunk+1))
			sending(t, w, "more")
		}},
	} {
		for _, here := range []bool{false, true} {
			if here && row.want == vfs.Limit {
				continue // that is a connection's
			}
			t.Run(fmt.Sprintf("%s, here %v", row.name, here), func(t *testing.T) {
				tree := &slow{scene.InMemory(t, vfstest.Tree{"f": {Data: "old"}}), make(chan struct{})}
				var d *client.Dir
				if !here {
					s := serve(t, tree, nil)
					loc, _ := s.Grant(t, "agent", "", false)
					d = scene.Dial(t, loc).Dir(context.Background())
				} else {
					d = client.NewDir(dir.New(membrane.Guarded(tree, nil)))
				}
				w := stage(t, d, "f", vfs.If{})
				defer w.Release()
				row.lose(t, w, func() { tree.step <- struct{}{} })
				d.Stat(t.Context()) // everything that was sent has come when this has; it may be refused
				over := make(chan struct{})
				defer close(over)
				go func() {
					for {
						select {
						case tree.step <- struct{}{}:
						case <-over:
							return
						}
					}
				}()
				eventually(t, "there is room for another call", func() bool { _, err := d.Stat(t.Context()); return err == nil })
				v, err := commit(t, w)
				if is(t, "commit", err, row.want); err == nil {
					reads(t, d, "f", "new")
				} else {
					reads(t, d, "f", "old")
					if len(v) > 0 || !strings.Contains(err.Error(), "stage again") && row.want != vfs.TooLarge {
						t.Errorf("commit answers %v, which does not say what to do", err)
					}
				}
			})
		}
	}
}

// An upload whose promises are all dropped is stored whole or refused, whenever the
// cancellations arrive.
func TestDroppedUploads(t *testing.T) {
	_, _, d := guest(t, vfstest.Tree{})
	uploads := 200
	if os.Getenv("CAPD_CI") != "" {
		uploads = 3000
	}
	whole, refused := 0, 0
	for i := range uploads {
		path := fmt.Sprint("f", i)
		w := stage(t, d, path, vfs.If{})
		// A call that is dropped while it still waits in this process is never sent, so
		// the host makes no write.
		ok(t, w.Settle(t.Context()))
		var want strings.Builder
		var kept []*vat.Answer[vat.Empty]
		for k := range 10 {
			part := fmt.Sprint(k, " of ", i, "\n")
			want.WriteString(part)
			a := sending(t, w, part)
			if i%3 == 0 || rand.IntN(40) == 0 { // a third of the uploads drops all, others now and then one
				a.Release()
			} else {
				kept = append(kept, a)
			}
		}
		_, err := commit(t, w)
		for _, a := range kept {
			a.Release()
		}
		w.Release()
		got, _, rerr := d.OpenFile(path).ReadText(t.Context())
		switch {
		case err == nil && got == want.String():
			whole++
		case vfs.CodeOf(err) == vfs.Invalid && vfs.CodeOf(rerr) == vfs.NotFound:
			refused++
		default:
			t.Fatalf("upload %d: commit says %v, and there is %q (%v)", i, err, got, rerr)
		}
	}
	if whole == 0 || refused == 0 {
		t.Errorf("%d uploads were whole and %d refused: this tries nothing", whole, refused)
	}
	t.Logf("%d whole, %d refused", whole, refused)
}

// What is written after commit was called is refused. What was written before is stored.
func TestWriteAfterCommit(t *testing.T) {
	_, _, d := guest(t, vfstest.Tree{})
	rounds := 1000
	if os.Getenv("CAPD_CI") != "" {
		rounds = 3000
	}
	for i := range rounds {
		w := stage(t, d, "f", vfs.If{})
		before := sending(t, w, "before")
		c := vat.Send(t.Context(), w, schema.Writer_commit, nil)
		after := sending(t, w, "after")
		_, _, err := c.Await(t.Context())
		ok(t, wire.Decode(err))
		_, _, err = before.Await(t.Context())
		ok(t, wire.Decode(err))
		_, _, err = after.Await(t.Context())
		is(t, fmt.Sprintf("round %d: a write after commit", i), wire.Decode(err), vfs.Invalid)
		reads(t, d, "f", "before")
		for _, a := range []*vat.Answer[vat.Empty]{before, after} {
			a.Release()
		}
		c.Release()
		w.Release()
	}
}

// A cancelled Put changes nothing or everything, and says which.
func TestPutCancelled(t *testing.T) {
	_, _, d := guest(t, vfstest.Tree{"f": {Data: "old"}})
	const size = 6 << 20
	data := pattern(size)
	done, given := 0, 0
	for i := range 60 {
		ctx, cancel := context.WithCancel(t.Context())
		at := rand.IntN(size * 5 / 4)
		_, err := d.Put(ctx, "f", &stopping{r: strings.NewReader(data), left: at, stop: cancel}, vfs.If{})
		cancel()
		want := data
		switch {
		case err == nil:
			done++
		case errors.Is(err, context.Canceled):
			given++
			want = "old"
		default:
			t.Fatalf("round %d: %v", i, err)
		}
		var got strings.Builder
		_, err = d.OpenFile("f").Stream(t.Context(), &got, 0, 0)
		if ok(t, err); got.String() != want {
			t.Fatalf("round %d, stopped at %d: %d bytes are there, want %d", i, at, got.Len(), len(want))
		}
		_, err = d.Put(t.Context(), "f", strings.NewReader("old"), vfs.If{})
		ok(t, err)
	}
	if done == 0 || given == 0 {
		t.Errorf("%d were done and %d given up: this tries nothing", done, given)
	}
}

// stopping calls stop after left bytes were read.
type stopping struct {
	r    io.Reader
	left int
	stop func()
}

func (s *stopping) Read(p []byte) (int, error) {
	n, err := s.r.Read(p)
	if s.left -= n; s.left <= 0 && s.stop != nil {
		s.stop()
		s.stop = nil
	}
	return n, err
}
