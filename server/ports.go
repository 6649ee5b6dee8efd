package server

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"net"

	"capd/database"
	"capd/state"
)

// ports are the free ports that were chosen for the addresses in Listen that name none. They are tried again at the next start, since the
// guests' locators name them.
type ports map[string]uint16

const portsKey = "ports"

func loadPorts(ctx context.Context, db *database.DB) (p ports, err error) {
	p = ports{}
	err = db.Read(ctx, func(rows *database.Rows) error {
		var text string
		err := rows.Row("SELECT value FROM meta WHERE key=?", portsKey).Scan(&text)
		if errors.Is(err, sql.ErrNoRows) {
			return nil
		}
		if err != nil {
			return err
		}
		return json.Unmarshal([]byte(text), &p)
	})
	return p, err
}

func (p ports) keep(db *database.DB) error {
	text, err := json.Marshal(p)
	if err != nil {
		return err
	}
	return db.Write(func(tx *database.Tx) error {
		_, err := tx.Exec("INSERT INTO meta(key, value) VALUES(?, ?) ON CONFLICT DO UPDATE SET value=excluded.value", portsKey, string(text))
		return err
	})
}

// listen listens at a, the address number i in Listen. Where a names no port, and the one that it had is taken, it gets another.
func (p ports) listen(ctx context.Context, i int, a hostPort, advertise *hostPort) (net.Listener, state.Way, error) {
	key := fmt.Sprintf("%d %s", i, a.host)
	if kept := p[key]; a.port == 0 && kept != 0 {
		if l, w, err := listenTLS(ctx, hostPort{a.host, kept}, advertise); err == nil {
			return l, w, nil
		}
	}
	l, w, err := listenTLS(ctx, a, advertise)
	if err == nil && a.port == 0 {
		p[key] = uint16(l.Addr().(*net.TCPAddr).Port)
	}
	return l, w, err
}
