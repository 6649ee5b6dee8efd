package main

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"os"
	"regexp"

	"capd/client"
	"capd/vfs"
)

// commandTurn matches the turns that the commands themselves name.
var commandTurn = regexp.MustCompile(`^capd [a-z]+ [0-9a-f]{8}$`)

// together returns d for a command that makes several changes, so that capd undo takes all of them back. If the
// environment names a turn, the changes belong to that.
func together(d *client.Dir, command string) *client.Dir {
	if os.Getenv("CAPD_TURN") != "" {
		return d
	}
	var id [4]byte
	rand.Read(id[:])
	return d.Turn("capd " + command + " " + hex.EncodeToString(id[:]))
}

// lastCommand returns what undoes the last change that is not undone, with what the same command changed.
func lastCommand(ctx context.Context, h historian) (vfs.Undo, error) {
	for q := (vfs.PastQuery{}); ; {
		page, err := h.History(ctx, q)
		if err != nil {
			return vfs.Undo{}, err
		}
		for _, p := range page.Entries {
			switch {
			case p.Undoes || p.UndoneBy != 0:
			case commandTurn.MatchString(p.Turn):
				return vfs.Undo{Turn: p.Turn}, nil
			default:
				return vfs.Undo{Last: 1}, nil
			}
			q.Before = p.ID
		}
		if !page.More {
			return vfs.Undo{Last: 1}, nil // whose error says that there is nothing to undo
		}
	}
}
