package git

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
	"os"
	"strconv"

	"github.com/go-git/go-git/v5/plumbing"
)

// loose is an object in a file of its own (gitformat-loose(5)), open at its data.
type loose struct {
	f    *os.File
	path string
	in   *inflater
	kind plumbing.ObjectType
	size int64
}

// looseName returns the name of a loose object in an objects directory.
func looseName(id plumbing.Hash) string {
	name := id.String()
	return name[:2] + "/" + name[2:]
}

// openLoose opens a loose object. It answers fs.ErrNotExist when there is none.
func openLoose(objects hostDir, id plumbing.Hash) (*loose, error) {
	f, err := objects.open(looseName(id))
	if err != nil {
		return nil, err
	}
	l := &loose{f: f, path: objects.full(looseName(id)), in: newInflater(f)}
	if err := l.readHead(); err != nil {
		l.close()
		if errors.Is(err, fs.ErrNotExist) {
			err = errMalformed
		}
		return nil, err
	}
	return l, nil
}

// readHead reads "kind size\\0".
func (l *loose) readHead() error {
	info, err := l.f.Stat()
	if err != nil {
		return err
	}
	if err := l.in.start(); err != nil {
		return err
	}
	var head [32]byte
	for n := range head {
		if _, err := io.ReadFull(l.in.out, head[n:n+1]); err != nil {
			return err
		}
		if head[n] != 0 {
			continue
		}
		word, digits, ok := bytes.Cut(head[:n], []byte(" "))
		if !ok {
			return errMalformed
		}
		if l.kind, err = plumbing.ParseObjectType(string(word)); err != nil || l.kind.IsDelta() {
			return errMalformed
		}
		l.size, err = strconv.ParseInt(string(digits), 10, 63)
		if err != nil || l.size < 0 || (l.size-maxRatio)/maxRatio > info.Size() {
			return errMalformed
		}
		return nil
	}
	return errMalformed
}

func (l *loose) close() {
	l.in.release()
	l.f.Close()
}

// all inflates the data and closes l. The data may be most bytes long.
func (l *loose) all(most int64) (plumbing.ObjectType, []byte, error) {
	defer l.close()
	if l.size > most {
		return 0, nil, errTooLarge
	}
	data, err := l.in.inflateAll(l.size)
	return l.kind, data, err
}
