//go:build !alone

package peers

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path"
	"path/filepath"
	"runtime/debug"

	"github.com/pkg/sftp"

	"capd/bench/load"
)

// SFTP is github.com/pkg/sftp without the ssh layer.
var SFTP = &Contender{
	Name:    "sftp",
	About:   "github.com/pkg/sftp's Server and Client, packets of 255 KiB, concurrent reads and writes; its server knows no fsync, so a put is atomic and not durable",
	Ops:     fileOps,
	OpsTLS:  fileOps,
	Version: moduleVersion("github.com/pkg/sftp"),
	Serve: func(p Place, l net.Listener) error {
		return accept(l, func(conn net.Conn) {
			defer conn.Close()
			s, err := sftp.NewServer(conn, sftp.WithServerWorkingDirectory(p.Tree), sftp.WithAllocator(), sftp.WithMaxTxPacket(sftpPacket))
			if err == nil {
				err = s.Serve()
			}
			if err != nil && err != io.EOF {
				fmt.Fprintln(os.Stderr, "sftp:", err)
			}
		})
	},
	Client: newSFTPClient,
}

// SFTPSync is a server of the same library's request handlers that syncs what is written.
var SFTPSync = &Contender{
	Name:    "sftp+fsync",
	About:   "github.com/pkg/sftp's RequestServer with handlers that fsync a written file when it is closed, and its directory when it is renamed; a put is durable",
	Ops:     []string{load.Put},
	OpsTLS:  []string{load.Put},
	Durable: true,
	Version: moduleVersion("github.com/pkg/sftp"),
	Serve: func(p Place, l net.Listener) error {
		h := sftpHandlers{p.Tree}
		return accept(l, func(conn net.Conn) {
			defer conn.Close()
			s := sftp.NewRequestServer(conn, sftp.Handlers{FileGet: h, FilePut: h, FileCmd: h, FileList: h}, sftp.WithRSAllocator(), sftp.WithRSMaxTxPacket(sftpPacket))
			if err := s.Serve(); err != nil && err != io.EOF {
				fmt.Fprintln(os.Stderr, "sftp+fsync:", err)
			}
		})
	},
	Client: newSFTPClient,
}

// sftpPacket is the most data that fits, with a header, into a packet, which the library bounds
// at 256 KiB.
const sftpPacket = 255 << 10

// moduleVersion says which version of a module is built in.
func moduleVersion(module string) func(Place) (string, error) {
	return func(Place) (string, error) {
		info, ok := debug.ReadBuildInfo()
		if !ok {
			return "", errors.New("no build information")
		}
		for _, m := range info.Deps {
			if m.Path == module {
				return m.Version, nil
			}
		}
		return "", fmt.Errorf("%s is not built in", module)
	}
}

type sftpHandlers struct{ tree string }

func (h sftpHandlers) Fileread(*sftp.Request) (io.ReaderAt, error) {
	return nil, sftp.ErrSSHFxOpUnsupported
}

func (h sftpHandlers) Filelist(*sftp.Request) (sftp.ListerAt, error) {
	return nil, sftp.ErrSSHFxOpUnsupported
}

func (h sftpHandlers) Filewrite(r *sftp.Request) (io.WriterAt, error) {
	f, err := os.OpenFile(filepath.Join(h.tree, r.Filepath), os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o644)
	return syncedFile{f}, err
}

func (h sftpHandlers) Filecmd(*sftp.Request) error { return sftp.ErrSSHFxOpUnsupported }

func (h sftpHandlers) PosixRename(r *sftp.Request) error {
	if err := os.Rename(filepath.Join(h.tree, r.Filepath), filepath.Join(h.tree, r.Target)); err != nil {
		return err
	}
	dir, err := os.Open(filepath.Join(h.tree, filepath.Dir(r.Target)))
	if err != nil {
		return err
	}
	defer dir.Close()
	return dir.Sync()
}

// A syncedFile is synced when it is closed.
type syncedFile struct{ *os.File }

func (f syncedFile) Close() error { return errors.Join(f.Sync(), f.File.Close()) }

type sftpClient struct {
	table []byte
	*sftp.Client
}

func newSFTPClient(p Place) (load.Client, error) {
	table, err := load.ReadTable(p.Table)
	if err != nil {
		return nil, err
	}
	conn, err := p.Dial(nil)
	if err != nil {
		return nil, err
	}
	c, err := sftp.NewClientPipe(conn, conn, sftp.MaxPacketUnchecked(sftpPacket), sftp.UseConcurrentReads(true), sftp.UseConcurrentWrites(true))
	return &sftpClient{table, c}, err
}

func (c *sftpClient) Op(op string, size int) (func(worker int) func() error, error) {
	switch op {
	case load.Pread:
		pieces := load.Pieces(c.table, size)
		file, err := c.Open(load.TableFile)
		if err != nil {
			return nil, err
		}
		return func(worker int) func() error {
			into := make([]byte, size)
			return load.InTurn(pieces, worker, func(p *load.Piece) error {
				n, err := file.ReadAt(into, int64(p.Offset))
				if err != nil && err != io.EOF {
					return err
				}
				return p.Check(into[:n])
			})
		}, nil
	case load.Whole, load.DeepFile:
		whole := load.FileOf(c.table, size)
		return func(int) func() error {
			into := make([]byte, size)
			return func() error {
				f, err := c.Open(load.At(op, load.FileName(size)))
				if err != nil {
					return err
				}
				defer f.Close()
				n, err := f.ReadAt(into, 0)
				if err != nil && err != io.EOF {
					return err
				}
				return whole.Check(into[:n])
			}
		}, nil
	case load.Put:
		pieces := load.Pieces(c.table, size)
		return func(worker int) func() error {
			name := path.Join(load.PutDir, fmt.Sprint("sftp", worker))
			return load.InTurn(pieces, worker, func(p *load.Piece) error { return c.put(name, p.Bytes) })
		}, nil
	case load.Stat, load.DeepStat:
		return func(int) func() error {
			return func() error {
				info, err := c.Lstat(load.At(op, load.TableFile))
				if err != nil {
					return err
				}
				return load.CheckStat(info.Size())
			}
		}, nil
	case load.List:
		return func(int) func() error {
			return func() error {
				entries, err := c.ReadDir(load.ListedDir)
				if err != nil {
					return err
				}
				return load.CheckList(len(entries))
			}
		}, nil
	case load.Download:
		s := load.NewStreamed(c.table, load.TableBytes)
		return func(int) func() error {
			return func() error {
				f, err := c.Open(load.BigFile)
				if err != nil {
					return err
				}
				defer f.Close()
				var sum summer
				if _, err := f.WriteTo(&sum); err != nil {
					return err
				}
				return s.Check(uint32(sum))
			}
		}, nil
	}
	return nil, load.ErrUnsupported
}

// put writes a new file and renames it.
func (c *sftpClient) put(name string, content []byte) error {
	f, err := c.OpenFile(name+".new", os.O_WRONLY|os.O_CREATE|os.O_TRUNC)
	if err != nil {
		return err
	}
	_, err = f.WriteAt(content, 0)
	if err = errors.Join(err, f.Close()); err != nil {
		return err
	}
	return c.PosixRename(name+".new", name)
}
