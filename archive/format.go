package archive

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"io"

	"capd/vfs"
)

// Format is a kind of archive.
type Format string

// The formats.
const (
	Zip     Format = "zip"
	Tar     Format = "tar"
	TarGzip Format = "tar.gz"
	TarZstd Format = "tar.zst"
)

// ParseFormat returns the format called name, also by its usual extensions with and without a dot.
func ParseFormat(name string) (Format, error) {
	switch name {
	case "zip", "tar", "tar.gz", "tar.zst":
		return Format(name), nil
	case "tgz":
		return TarGzip, nil
	case "tzst":
		return TarZstd, nil
	}
	return "", vfs.Errorf(vfs.Invalid, "%q is not a kind of archive; it is zip, tar, tar.gz or tar.zst", vfs.Printable(name))
}

var errFormat = vfs.Errorf(vfs.Invalid, "this is not an archive; it must be a zip file, or a tar file, also compressed with gzip or zstd")

// formatOf returns the format of an archive, by how it begins.
func formatOf(r io.ReaderAt, size int64) (Format, error) {
	head := make([]byte, min(size, 512))
	if n, err := r.ReadAt(head, 0); n < len(head) {
		return "", reading(err)
	}
	for _, known := range []struct {
		begins string
		format Format
	}{
		{"PK\x03\x04", Zip}, {"PK\x05\x06", Zip},
		{"\x1f\x8b", TarGzip},
		{"\x28\xb5\x2f\xfd", TarZstd}, // RFC 8878
	} {
		if bytes.HasPrefix(head, []byte(known.begins)) {
			return known.format, nil
		}
	}
	if _, err := tar.NewReader(bytes.NewReader(head)).Next(); len(head) < 512 || errors.Is(err, tar.ErrHeader) {
		return "", errFormat
	}
	return Tar, nil
}

func (f Format) read(t *Tree, r source) error {
	switch f {
	case Zip:
		return t.readZip(r)
	case Tar:
		return t.readTar(r, r.Size())
	}
	return t.readPacked(r, f)
}

// reading returns the error of an archive that could not be read. What a store answers stays.
func reading(err error) error {
	_, known := errors.AsType[*vfs.Error](err)
	if err == nil || known || vfs.CodeOf(err) != vfs.Internal || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	return &vfs.Error{Code: vfs.Invalid, Msg: "the archive is damaged", Cause: err}
}
