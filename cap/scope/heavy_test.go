package scope_test

import (
	"context"
	"io"
	"testing"
	"time"

	"capd/cap/scope"
	"capd/vfs"
)

// full takes every turn of one kind and returns what gives one back.
func full(t *testing.T, take func(context.Context) (func(), error)) (done func()) {
	t.Helper()
	for range scope.MaxHeavy {
		var err error
		if done, err = take(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if free(t, take) {
		t.Fatal("there is no bound")
	}
	return done
}

// free reports whether a turn is to be had.
func free(t *testing.T, take func(context.Context) (func(), error)) bool {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	done, err := take(ctx)
	if err != nil {
		return false
	}
	done()
	return true
}

func TestHeavy(t *testing.T) {
	s := scope.New()
	done := full(t, s.Change)
	if !free(t, s.Look) {
		t.Error("a look waits for changes")
	}
	if give, err := s.ChangeIf(t.Context(), vfs.If{Absent: true}); err != nil {
		t.Error("a change that needs no version waits")
	} else {
		give()
	}
	if free(t, func(ctx context.Context) (func(), error) { return s.ChangeIf(ctx, vfs.If{Is: vfs.Version{1}}) }) {
		t.Error("a change that needs a version does not wait")
	}
	done()
	done()
	if !free(t, s.Change) {
		t.Error("a turn that was given back is not free")
	}
	full(t, s.Look)
}

// A change that waits for its content keeps nobody waiting.
func TestChangeFrom(t *testing.T) {
	s := scope.New()
	r, w := io.Pipe()
	ended := make(chan error)
	staged, release := make(chan struct{}), make(chan struct{})
	for range scope.MaxHeavy {
		go func() {
			_, err := s.ChangeFrom(t.Context(), vfs.If{Is: vfs.Version{1}}, r, func(r io.Reader) (vfs.Version, error) {
				_, err := io.Copy(io.Discard, r)
				staged <- struct{}{}
				<-release
				return vfs.Version{}, err
			})
			ended <- err
		}()
	}
	time.Sleep(10 * time.Millisecond)
	if !free(t, s.Change) {
		t.Error("no turn while the content is awaited")
	}
	w.Close()
	for range scope.MaxHeavy {
		<-staged
	}
	if free(t, s.Change) {
		t.Error("no turn once the content is there")
	}
	for range scope.MaxHeavy {
		release <- struct{}{}
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}
	full(t, s.Change)
}
