package state

import (
	"crypto/ed25519"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"capd/hostfile"
	"capd/vfs"
)

// maxKeyFile is far larger than any key.
const maxKeyFile = 64 << 10

// Key returns the host's key. It makes one if there is none. It answers invalid for a file that is no key, or
// that others can read. The caller holds the lock.
func (d Dir) Key() (ed25519.PrivateKey, error) {
	key, err := d.readKey()
	if errors.Is(err, fs.ErrNotExist) {
		return d.makeKey()
	}
	return key, err
}

// readKey reads the key, which is in PKCS #8 and PEM (RFC 5958, RFC 7468).
func (d Dir) readKey() (ed25519.PrivateKey, error) {
	bad := func(why string) error {
		return vfs.Errorf(vfs.Invalid, "the host's key %s %s. Mend that, or remove the file: a new key is made then, and guests over TLS need new locators", d.key(), why)
	}
	fi, err := os.Lstat(d.key())
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, err
	case err != nil:
		return nil, bad("cannot be read: " + Reason(err).Error())
	case !fi.Mode().IsRegular():
		return nil, bad("is not a regular file")
	case fi.Size() > maxKeyFile:
		return nil, bad("is not a private key in PEM")
	case !Secret(fi):
		return nil, bad("belongs to somebody else, or others can read it (chmod 600; whoever has read it can pose as this host)")
	}
	text, err := os.ReadFile(d.key())
	if err != nil {
		return nil, bad("cannot be read: " + Reason(err).Error())
	}
	block, _ := pem.Decode(text)
	if block == nil || block.Type != "PRIVATE KEY" {
		return nil, bad("is not a private key in PEM")
	}
	parsed, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	key, ok := parsed.(ed25519.PrivateKey)
	if err != nil || !ok {
		return nil, bad("is not an Ed25519 key in PKCS #8")
	}
	return key, nil
}

// makeKey makes a key, and stores it before anybody can use it.
func (d Dir) makeKey() (ed25519.PrivateKey, error) {
	_, key, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return nil, err
	}
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return nil, err
	}
	if err := WriteFile(d.key(), pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der})); err != nil {
		return nil, vfs.Errorf(vfs.Denied, "the host's key cannot be kept in %s: %v", d, Reason(err))
	}
	return key, nil
}

// WriteFile writes a file atomically and durably. Only this user can read it. No two calls may write one file at
// the same time.
func WriteFile(path string, content []byte) (err error) {
	staged := path + ".new"
	if err := os.Remove(staged); err != nil && !errors.Is(err, fs.ErrNotExist) { // left by a start that was interrupted
		return err
	}
	f, err := os.OpenFile(staged, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			os.Remove(staged)
		}
	}()
	_, err = f.Write(content)
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		return err
	}
	if err := os.Rename(staged, path); err != nil {
		return err
	}
	return hostfile.SyncDir(filepath.Dir(path))
}
