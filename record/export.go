package record

import (
	"bufio"
	"context"
	"encoding/json"
	"io"

	"golang.org/x/mod/sumdb/tlog"

	"capd/database"
)

// An export is text. Its first line is an [exportHeader]. Then come the entries, a line each, as they lie in the database: the
// hash of an entry is that of a zero byte and its line, without the newline. The rest is a checkpoint of all of them.

// exportHeader says where an export begins.
type exportHeader struct {
	Export int   `json:"export"` // 1, the version of the format
	First  int64 `json:"first"`  // the number of the first entry
	// Before has the hashes of the complete subtrees over the entries before that, the largest first: for each bit that is
	// set in First there is one of as many entries.
	Before [][]byte `json:"before"`
}

// Exported says what [Export] has written.
type Exported struct {
	Entries int64
	Left    int64 // how many entries were left out, because no checkpoint has them yet
}

const selectNewestSize = "SELECT size, note FROM checkpoints ORDER BY size DESC LIMIT 1"

// Export writes the record in from, up to its newest checkpoint, so that [VerifyExport] and other programs can check it without
// the database. It answers notFound for a record without a checkpoint.
func Export(ctx context.Context, from Source, w io.Writer) (done Exported, err error) {
	if _, err := Newest(ctx, from); err != nil {
		return done, err
	}
	out := bufio.NewWriterSize(w, 1<<16)
	err = from.Read(ctx, func(r *database.Rows) error { // one snapshot: old entries may be removed meanwhile
		done, err = export(ctx, r, out)
		return err
	})
	if err == nil {
		err = out.Flush()
	}
	return done, err
}

func export(ctx context.Context, r *database.Rows, out *bufio.Writer) (done Exported, err error) {
	var size, end int64
	var note string
	h := exportHeader{Export: 1}
	if err := r.Row(selectNewestSize).Scan(&size, &note); err != nil {
		return done, err
	}
	if err := r.Row(selectSize).Scan(&end); err != nil {
		return done, err
	}
	if err := r.Row(selectFirst).Scan(&h.First); err != nil {
		return done, err
	}
	if h.Before, err = subtrees(r, h.First); err != nil {
		return done, err
	}
	if err := json.NewEncoder(out).Encode(h); err != nil {
		return done, err
	}
	done = Exported{Entries: size - h.First, Left: end - size}
	for next := h.First; next < size; {
		part, err := pageOf(r, next, min(page, size-next))
		if err == nil {
			err = ctx.Err()
		}
		if err != nil {
			return done, err
		}
		if len(part) == 0 {
			return done, errDamaged
		}
		for _, s := range part {
			if s.seq != next {
				return done, errDamaged
			}
			next++
			if _, err := out.Write(append(s.body, '\n')); err != nil {
				return done, err
			}
		}
	}
	_, err = out.WriteString(note)
	return done, err
}

// subtrees returns the hashes of the complete subtrees over the first n entries, which are whole blocks.
func subtrees(r *database.Rows, n int64) (hashes [][]byte, err error) {
	hashes = [][]byte{}
	var f frontier
	err = each(r, func(hash []byte) error {
		if f.size < n && len(hash) == tlog.HashSize {
			f.add(blockLevel, tlog.Hash(hash))
		}
		return nil
	}, selectHashes, blockLevel, 0)
	if err == nil && f.size != n {
		err = errDamaged
	}
	for _, t := range f.tops {
		hashes = append(hashes, t.hash[:])
	}
	return hashes, err
}
