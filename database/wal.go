package database

import "context"

// wal tends the write-ahead log, which takes every commit. What is in it is moved to the file between commits.
type wal struct {
	keep    bool // there is a log
	commits int  // since its length was last looked at
}

const (
	lookEach = 64   // commits between two looks at the log's length
	wellLong = 1000 // pages of a log that is moved to the file when nobody waits
	tooLong  = 4000 // pages of a log that is moved to the file at once
)

// tend moves the log to the file if it is long enough. idle says that nobody waits to write.
func (l *wal) tend(c *conn, idle bool) {
	l.commits++
	if !l.keep || l.commits < lookEach {
		return
	}
	l.commits = 0
	pages, err := checkpoint(c, "NOOP")
	if err == nil && (pages > wellLong && idle || pages > tooLong) {
		_, _ = checkpoint(c, "PASSIVE") // after an error the log only becomes longer; a commit will say what is wrong
	}
}

// checkpoint returns how many pages of the log are not in the file when it begins.
func checkpoint(c *conn, how string) (pages int64, err error) {
	var busy, moved int64
	err = c.QueryRowContext(context.Background(), "PRAGMA wal_checkpoint("+how+")").Scan(&busy, &pages, &moved)
	return pages - moved, err
}
