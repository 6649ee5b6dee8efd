package database

import (
	"context"
	"embed"
	"fmt"
	"path"
	"strconv"

	"capd/vfs"
)

//go:embed sql/*.sql
var scripts embed.FS

// migrations returns the scripts that make the tables, in order. Number 1 makes the first version of an empty file.
func migrations() (steps []string) {
	all, err := scripts.ReadDir("sql")
	for _, e := range all {
		var text []byte
		if text, err = scripts.ReadFile(path.Join("sql", e.Name())); err != nil {
			break
		}
		steps = append(steps, string(text))
	}
	if err != nil {
		panic(err) // they are in the binary
	}
	return steps
}

// migrate brings the database at path, which may be empty, to the newest version, in one transaction. Before it
// changes one that has a version, it copies it.
func migrate(c *conn, path string, steps []string) error {
	version, err := c.number("PRAGMA user_version")
	switch newest := int64(len(steps)); {
	case err != nil:
		return err
	case version == newest:
		return nil
	case version > newest:
		return vfs.Errorf(vfs.Unsupported, "the state %s was written by a newer capd (version %d, this one knows %d); use that one, or name another state directory",
			path, version, newest)
	case version > 0:
		if err := keepOld(path, version); err != nil {
			return err
		}
	}
	return c.upgrade(steps[version:], len(steps))
}

// keepOld copies the database at path, unless that was done before.
func keepOld(path string, version int64) error {
	err := backup(context.Background(), path, path+".before-"+strconv.FormatInt(version+1, 10))
	if vfs.CodeOf(err) == vfs.Exists {
		return nil
	}
	return err
}

func (c *conn) upgrade(steps []string, version int) error {
	tx, err := c.BeginTx(context.Background(), nil)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }() // after Commit it does nothing
	for _, step := range append(steps, fmt.Sprintf("PRAGMA user_version=%d", version)) {
		if _, err := tx.Exec(step); err != nil {
			return err
		}
	}
	return tx.Commit()
}
