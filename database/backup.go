package database

import (
	"context"
	"database/sql"
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"capd/hostfile"
	"capd/state"
	"capd/vfs"
)

// Backup copies the state in d to a new file that only this user can read. It works beside a running host: the copy is
// of one moment. Put in the place of the state, the copy brings back what was revoked since. Backup answers exists if
// there is something at file, and notFound if there is no state in d.
func Backup(ctx context.Context, d state.Dir, file string) error {
	if err := there(d); err != nil {
		return err
	}
	useOFDLocks()
	return backup(ctx, d.Database(), file)
}

// there answers notFound unless there is a state in d.
func there(d state.Dir) error {
	if _, err := os.Lstat(d.Database()); err != nil {
		return vfs.Errorf(vfs.NotFound, "there is no state in %s: %v", d, state.Reason(err))
	}
	return nil
}

func backup(ctx context.Context, path, file string) error {
	if _, err := os.Lstat(file); !errors.Is(err, fs.ErrNotExist) {
		return vfs.Errorf(vfs.Exists, "there is something at %s; name another file", file)
	}
	staged := file + ".new"
	err := state.WriteFile(staged, nil) // so that only this user can read what is written to it
	if err == nil {
		defer os.Remove(staged)
		err = copyTo(ctx, path, staged)
	}
	if err == nil {
		err = publish(staged, file)
	}
	if err != nil && code(err) == 0 && vfs.CodeOf(err) == vfs.Internal {
		return vfs.Errorf(vfs.Denied, "%s cannot be written: %v", file, state.Reason(err))
	}
	return said(path, err)
}

// copyTo copies the database at path to an empty file.
func copyTo(ctx context.Context, path, file string) error {
	pool, err := sql.Open("sqlite", locate(path, reading))
	if err != nil {
		return err
	}
	_, err = pool.ExecContext(ctx, "VACUUM INTO ?", file)
	return errors.Join(err, pool.Close())
}

// publish gives a file that was written its name, durably.
func publish(staged, file string) error {
	f, err := os.OpenFile(staged, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	if err := errors.Join(f.Sync(), f.Close()); err != nil {
		return err
	}
	if err := os.Rename(staged, file); err != nil {
		return err
	}
	return hostfile.SyncDir(filepath.Dir(file))
}
