package floor

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"capd/bench/load"
)

// A Server serves a table and a tree of files.
type Server struct {
	table []byte
	tree  string
	file  *os.File // the table's

	listing sync.Mutex // the held directory has only one position
	listed  *os.File
}

// NewServer serves the table and the tree, which also holds the table as a file.
func NewServer(table []byte, tree string) (*Server, error) {
	f, err := os.Open(filepath.Join(tree, load.TableFile))
	if err != nil {
		return nil, err
	}
	dir, err := os.Open(filepath.Join(tree, load.ListedDir))
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return &Server{table: table, tree: tree, file: f, listed: dir}, nil
}

// Serve serves every connection that l accepts, until it is closed.
func (s *Server) Serve(l net.Listener) error {
	for {
		conn, err := l.Accept()
		if errors.Is(err, net.ErrClosed) {
			return nil
		}
		if err != nil {
			return err
		}
		go func() {
			defer conn.Close()
			if err := s.conn(conn); err != io.EOF {
				fmt.Fprintln(os.Stderr, "floor:", err)
			}
		}()
	}
}

func (s *Server) conn(conn net.Conn) error {
	r := bufio.NewReaderSize(conn, bufferBytes)
	w := newWriter(conn)
	var in, out []byte // every frame uses them again
	for {
		head, err := r.Peek(headerBytes)
		if err != nil {
			return err
		}
		length, id, op := header(head)
		_, _ = r.Discard(headerBytes)
		in = sized(in, length)
		if _, err := io.ReadFull(r, in); err != nil {
			return err
		}
		if op == opRaw {
			return raw(conn, r)
		}
		if op == opDownload {
			if err := s.download(w, id, string(in)); err != nil {
				return err
			}
			continue
		}
		reply, err := s.handle(op, in, &out)
		if err != nil {
			op, reply = opFailed, []byte(err.Error())
		}
		w.frame(id, op, reply)
		if r.Buffered() == 0 || w.full() {
			if err := w.flush(); err != nil {
				return err
			}
		}
	}
}

// handle returns the reply, which may use the memory of out.
func (s *Server) handle(op uint32, in []byte, out *[]byte) ([]byte, error) {
	switch op {
	case opEcho:
		return in, nil
	case opRead:
		off, length := binary.LittleEndian.Uint32(in), binary.LittleEndian.Uint32(in[4:])
		*out = sized(*out, int(length))
		copy(*out, s.table[off:])
		return *out, nil
	case opWrite:
		*out = binary.LittleEndian.AppendUint32((*out)[:0], load.Sum(in))
		return *out, nil
	case opPread:
		off, length := binary.LittleEndian.Uint32(in), binary.LittleEndian.Uint32(in[4:])
		*out = sized(*out, int(length))
		_, err := s.file.ReadAt(*out, int64(off))
		return *out, err
	case opWhole:
		return s.whole(string(in), out)
	case opPut:
		n := 4 + binary.LittleEndian.Uint32(in)
		return nil, s.put(string(in[4:n]), in[n:])
	case opStat:
		info, err := os.Lstat(filepath.Join(s.tree, string(in)))
		if err != nil {
			return nil, err
		}
		*out = binary.LittleEndian.AppendUint64((*out)[:0], uint64(info.Size()))
		*out = binary.LittleEndian.AppendUint64(*out, uint64(info.ModTime().UnixMilli()))
		return *out, nil
	case opList:
		entries, err := os.ReadDir(filepath.Join(s.tree, string(in)))
		if err != nil {
			return nil, err
		}
		*out = names((*out)[:0], entries)
		return *out, nil
	case opHeldList:
		entries, err := s.list()
		*out = names((*out)[:0], entries)
		return *out, err
	}
	return nil, fmt.Errorf("no operation %d", op)
}

// list lists the held directory, sorted by name as os.ReadDir does.
func (s *Server) list() ([]os.DirEntry, error) {
	s.listing.Lock()
	defer s.listing.Unlock()
	if _, err := s.listed.Seek(0, io.SeekStart); err != nil {
		return nil, err
	}
	entries, err := s.listed.ReadDir(-1)
	slices.SortFunc(entries, func(a, b os.DirEntry) int { return strings.Compare(a.Name(), b.Name()) })
	return entries, err
}

// names appends the names of entries to out, each with a NUL.
func names(out []byte, entries []os.DirEntry) []byte {
	for _, e := range entries {
		out = append(append(out, e.Name()...), 0)
	}
	return out
}

func (s *Server) whole(path string, out *[]byte) ([]byte, error) {
	f, err := os.Open(filepath.Join(s.tree, path))
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	*out = sized(*out, int(info.Size()))
	_, err = io.ReadFull(f, *out)
	return *out, err
}

// put replaces a file as capd does: it writes and syncs a new file, renames it, and syncs the directory.
func (s *Server) put(path string, content []byte) error {
	name := filepath.Join(s.tree, path)
	dir, err := os.Open(filepath.Dir(name))
	if err != nil {
		return err
	}
	defer dir.Close()
	f, err := os.CreateTemp(filepath.Dir(name), ".put")
	if err != nil {
		return err
	}
	defer f.Close()
	_, err = f.Write(content)
	if err = errors.Join(err, f.Sync()); err == nil {
		err = os.Rename(f.Name(), name)
	}
	if err != nil {
		return errors.Join(err, os.Remove(f.Name()))
	}
	return dir.Sync()
}

// download sends an empty reply and then the file's bytes without frames, as fast as they can be read and written.
func (s *Server) download(w *writer, id uint32, path string) error {
	f, err := os.Open(filepath.Join(s.tree, path))
	if err != nil {
		w.frame(id, opFailed, []byte(err.Error()))
		return w.flush()
	}
	defer f.Close()
	w.frame(id, opDownload, nil)
	if err := w.flush(); err != nil {
		return err
	}
	b := make([]byte, 256<<10)
	for {
		n, err := f.Read(b)
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
		if _, err := w.conn.Write(b[:n]); err != nil {
			return err
		}
	}
}

// raw receives bytes without frames and answers with their sum, four bytes, after every load.StreamBytes.
func raw(conn net.Conn, r io.Reader) error {
	b := make([]byte, 256<<10)
	for {
		var sum uint32
		for left := load.StreamBytes; left > 0; {
			n, err := r.Read(b[:min(left, len(b))])
			if err != nil {
				return err
			}
			sum = load.Add(sum, b[:n])
			left -= n
		}
		if _, err := conn.Write(binary.LittleEndian.AppendUint32(nil, sum)); err != nil {
			return err
		}
	}
}

// sized returns n bytes, in b's memory if that is large enough.
func sized(b []byte, n int) []byte {
	if cap(b) < n {
		return make([]byte, n)
	}
	return b[:n]
}
