package sandbox

import (
	"errors"
	"io"
	"os"
	"os/exec"
	"sync"

	"golang.org/x/term"
)

// streams are the program's standard input and output. The program gets a terminal
// itself. Anything else is copied through a pipe that belongs to the program's user: it
// can then open /dev/stdout, but no file of the host.
type streams struct {
	user   user
	theirs []*os.File // to be closed once the program has them
	ours   []*os.File
	copies []func() // copy output
	feed   func()   // copies input

	copying sync.WaitGroup
	mu      sync.Mutex
	err     error // of the caller's writers
}

// connect gives cmd the streams of c.
func connect(cmd *exec.Cmd, c Command, u user) (*streams, error) {
	s := &streams{user: u, feed: func() {}}
	err := s.input(cmd, c.Stdin)
	if err == nil {
		cmd.Stdout, err = s.output(c.Stdout)
	}
	if err == nil && sameWriter(c.Stdout, c.Stderr) {
		cmd.Stderr = cmd.Stdout // both in one stream, in order
	} else if err == nil {
		cmd.Stderr, err = s.output(c.Stderr)
	}
	if err != nil {
		s.close()
		return nil, err
	}
	return s, nil
}

// sameWriter reports whether a and b are the same writer.
func sameWriter(a, b io.Writer) (same bool) {
	defer func() { _ = recover() }() // writers that cannot be compared are different
	return a != nil && a == b
}

func (s *streams) input(cmd *exec.Cmd, from io.Reader) error {
	if f, ok := from.(*os.File); from == nil || ok && isTerminal(f) {
		cmd.Stdin = from
		return nil
	}
	r, w, err := s.pipe()
	if err != nil {
		return err
	}
	cmd.Stdin = r
	s.theirs, s.ours = append(s.theirs, r), append(s.ours, w)
	s.feed = func() {
		_, _ = io.Copy(w, from) // ends when the program no longer reads
		w.Close()
	}
	return nil
}

func (s *streams) output(to io.Writer) (io.Writer, error) {
	if f, ok := to.(*os.File); to == nil || ok && isTerminal(f) {
		return to, nil
	}
	r, w, err := s.pipe()
	if err != nil {
		return nil, err
	}
	s.theirs, s.ours = append(s.theirs, w), append(s.ours, r)
	s.copies = append(s.copies, func() {
		_, err := io.Copy(to, r)
		r.Close() // the program notices that nobody reads any more
		s.mu.Lock()
		s.err = errors.Join(s.err, err)
		s.mu.Unlock()
	})
	return w, nil
}

func (s *streams) pipe() (r, w *os.File, err error) {
	r, w, err = os.Pipe()
	if err == nil && s.user.switched {
		if err = w.Chown(s.user.uid, s.user.gid); err != nil {
			r.Close()
			w.Close()
		}
	}
	return r, w, err
}

// started starts copying.
func (s *streams) started() {
	s.closeTheirs()
	for _, c := range s.copies {
		s.copying.Go(c)
	}
	go s.feed()
}

// wait waits for all output, and returns errors of the caller's writers.
func (s *streams) wait() error {
	s.copying.Wait()
	return s.err
}

func (s *streams) closeTheirs() {
	for _, f := range s.theirs {
		f.Close()
	}
}

// close closes what was never started.
func (s *streams) close() {
	s.closeTheirs()
	for _, f := range s.ours {
		f.Close()
	}
}

func isTerminal(f *os.File) bool {
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0 && term.IsTerminal(int(f.Fd()))
}
