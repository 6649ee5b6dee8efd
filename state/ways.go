package state

import (
	"encoding/json"
	"errors"
	"io/fs"
	"os"

	"capd/locator"
	"capd/vfs"
)

// Way is how guests over TLS find a host: a locator without its secret.
type Way struct {
	Host string      `json:"host"`
	Port uint16      `json:"port"`
	Key  locator.Key `json:"key"`
}

// Locator returns the locator for a secret by this way.
func (w Way) Locator(secret [locator.SecretSize]byte) locator.Locator {
	return locator.Locator{Host: w.Host, Port: w.Port, Key: w.Key, Secret: secret}
}

// String returns tls:HOST:PORT.
func (w Way) String() string { return "tls:" + w.Locator([locator.SecretSize]byte{}).Address() }

// KeepWays stores, for the host's commands, where guests over TLS find it. The caller holds the lock.
func (d Dir) KeepWays(ways []Way) error {
	text, err := json.Marshal(ways)
	if err != nil {
		return err
	}
	if err := WriteFile(d.ways(), append(text, '\n')); err != nil {
		return d.Unusable(err)
	}
	return nil
}

// ForgetWays removes what KeepWays stored.
func (d Dir) ForgetWays() { os.Remove(d.ways()) }

// Ways returns what KeepWays stored, or none. It answers corrupt.
func (d Dir) Ways() (ways []Way, err error) {
	text, err := os.ReadFile(d.ways())
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err == nil {
		err = json.Unmarshal(text, &ways)
	}
	if err != nil {
		return nil, vfs.Errorf(vfs.Corrupt, "%s cannot be read: %v; start the host again", d.ways(), Reason(err))
	}
	return ways, nil
}
