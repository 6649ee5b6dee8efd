package record

import (
	"cmp"
	"context"
	"crypto/ed25519"
	"database/sql"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"golang.org/x/mod/sumdb/note"
	"golang.org/x/mod/sumdb/tlog"

	"capd/database"
	"capd/vfs"
)

// A checkpoint is a note (https://c2sp.org/signed-note, https://c2sp.org/tlog-checkpoint): the name of the record, how
// many entries it has, the hash of the tree over them, and a signature of the host's record key.

// Verifier returns the line that stands for the public half of a record key. [Verify] takes it.
func Verifier(key ed25519.PublicKey) (string, error) {
	return note.NewEd25519VerifierKey(origin(key), key)
}

// origin is the name of the record that key signs.
func origin(key ed25519.PublicKey) string { return "capd/" + hex.EncodeToString(key[:4]) }

// signer is a record key.
type signer struct {
	note.Verifier
	key ed25519.PrivateKey
}

func newSigner(key ed25519.PrivateKey) (*signer, error) {
	line, err := Verifier(key.Public().(ed25519.PublicKey))
	if err != nil {
		return nil, err
	}
	v, err := note.NewVerifier(line)
	return &signer{v, key}, err
}

// Sign implements note.Signer.
func (s *signer) Sign(text []byte) ([]byte, error) { return ed25519.Sign(s.key, text), nil }

// checkpoint is what a checkpoint says.
type checkpoint struct {
	size int64
	root tlog.Hash
	by   string // the name of its key
	at   int64  // when it was made, in milliseconds since the epoch; 0 if that is not known
}

func (c checkpoint) when() string {
	if c.at == 0 {
		return "the given checkpoint"
	}
	return "the checkpoint of " + time.UnixMilli(c.at).UTC().Format("2006-01-02 15:04:05")
}

// sign returns the checkpoint of a tree.
func (s *signer) sign(t *frontier) (string, error) {
	root := t.root()
	text := fmt.Sprintf("%s\n%d\n%s\n", s.Name(), t.size, base64.StdEncoding.EncodeToString(root[:]))
	signed, err := note.Sign(&note.Note{Text: text}, s)
	return string(signed), err
}

// parse checks the signature of a checkpoint and returns what it says. It answers invalid.
func parse(text string, by note.Verifiers) (c checkpoint, err error) {
	n, err := note.Open([]byte(text), by)
	if err != nil {
		return c, vfs.Errorf(vfs.Invalid, "it is not signed by the record's key, or was changed")
	}
	lines := strings.Split(n.Text, "\n")
	if len(lines) < 4 {
		return c, errNoCheckpoint
	}
	c.by = lines[0]
	size, err := strconv.ParseInt(lines[1], 10, 64)
	root, rootErr := base64.StdEncoding.DecodeString(lines[2])
	if err != nil || rootErr != nil || size <= 0 || len(root) != tlog.HashSize {
		return c, errNoCheckpoint
	}
	c.size, c.root = size, tlog.Hash(root)
	return c, nil
}

var errNoCheckpoint = vfs.Errorf(vfs.Invalid, "it is no checkpoint of a record")

// signing is how often what was written is signed.
const signing = time.Minute

// tend signs each minute what was written, and removes what is not to be kept.
func (l *Log) tend() {
	t := time.NewTicker(signing)
	defer t.Stop()
	l.trimNow()
	for full := l.full; ; {
		select {
		case <-full:
			if !l.trimNow() {
				full = nil // nothing can be removed for now
			}
		case <-t.C:
			full = l.full
			l.trimNow()
			if _, err := l.Checkpoint(false); err != nil {
				l.logf("capd: the record is not signed: %v", err)
			}
		case <-l.stop:
			return
		}
	}
}

func (l *Log) tellFull() {
	select {
	case l.full <- struct{}{}:
	default:
	}
}

const (
	dropCheckpoints  = "DELETE FROM checkpoints WHERE given = 0"
	insertCheckpoint = "INSERT INTO checkpoints(size, note, at, given) VALUES(?, ?, ?, ?) ON CONFLICT(size) DO UPDATE SET given = max(given, excluded.given)"
	putMeta          = "INSERT INTO meta(key, value) VALUES(?, ?) ON CONFLICT(key) DO UPDATE SET value = excluded.value"
)

// What a start need not find out again.
const (
	metaSettled = "settled" // every intent with a smaller number has ended
	metaCounted = "counted" // the entries with smaller numbers have metaBytes
	metaBytes   = "recordBytes"
)

func putNumber(tx *database.Tx, key string, n int64) error {
	_, err := tx.Exec(putMeta, key, n)
	return err
}

// Checkpoint signs what was written so far and returns the note. A given one is kept for ever, for an operator who
// stores it elsewhere: only that shows later that nothing was removed by somebody who has the key. Another replaces the
// newest. Without a key Checkpoint returns "".
func (l *Log) Checkpoint(given bool) (text string, err error) {
	err = l.db.Write(func(tx *database.Tx) error {
		text, err = l.signNow(tx, given)
		return err
	})
	return text, err
}

func (l *Log) signNow(tx *database.Tx, given bool) (text string, err error) {
	if l.signed == l.tree.size && !given {
		return "", nil
	}
	settled, was := l.tree.size, l.signed
	for id := range l.open {
		settled = min(settled, id)
	}
	tx.OnRollback(func() { l.signed = was })
	l.signed = l.tree.size
	err = cmp.Or(putNumber(tx, metaSettled, settled), putNumber(tx, metaCounted, l.tree.size), putNumber(tx, metaBytes, l.bytes))
	if err != nil || l.sign == nil {
		return "", err
	}
	if text, err = l.sign.sign(&l.tree); err != nil {
		return "", err
	}
	if _, err := tx.Exec(dropCheckpoints); err != nil {
		return "", err
	}
	_, err = tx.Exec(insertCheckpoint, l.tree.size, text, l.now().UnixMilli(), given)
	return text, err
}

const (
	selectNewest = "SELECT note FROM checkpoints ORDER BY size DESC LIMIT 1"
	giveNewest   = "UPDATE checkpoints SET given = 1 WHERE size = (SELECT max(size) FROM checkpoints)"
)

// Newest returns the newest checkpoint of the record in from. It answers notFound.
func Newest(ctx context.Context, from Source) (text string, err error) {
	err = from.Read(ctx, func(r *database.Rows) error { return r.Row(selectNewest).Scan(&text) })
	if errors.Is(err, sql.ErrNoRows) {
		err = vfs.Errorf(vfs.NotFound, "no checkpoint of this record was made yet")
	}
	return text, err
}

// Give is [Newest], and keeps that checkpoint for ever, as [Log.Checkpoint] keeps a given one. No Log writes the record.
func Give(db *database.DB) (string, error) {
	err := db.Write(func(tx *database.Tx) error {
		_, err := tx.Exec(giveNewest)
		return err
	})
	if err != nil {
		return "", err
	}
	return Newest(context.Background(), db)
}
