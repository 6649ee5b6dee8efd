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

// Key returns the host's key for TLS. It makes one if there is none. It answers invalid for a file that is no key,
// or that others can read. The caller holds the lock.
func (d Dir) Key() (ed25519.PrivateKey, error) {
	return keyFile{d.key(), "host's key", "guests over TLS need new locators", "pose as this host"}.get()
}

// RecordKey is Key for the key that signs the host's record.
func (d Dir) RecordKey() (ed25519.PrivateKey, error) { return d.recordKey().get() }

// ReadRecordKey is RecordKey, but it answers notFound if there is no key.
func (d Dir) ReadRecordKey() (ed25519.PrivateKey, error) {
	key, err := d.recordKey().read()
	if errors.Is(err, fs.ErrNotExist) {
		return nil, vfs.Errorf(vfs.NotFound, "there is no record in %s: no host has run with this state", d)
	}
	return key, err
}

func (d Dir) recordKey() keyFile {
	return keyFile{d.join("record.key"), "record's key", "older checkpoints of the record can be checked only with the public half of the old one", "sign another record"}
}

// keyFile is a file with a private key, and what to say of it.
type keyFile struct {
	path, what string
	lost       string // what happens with a new key
	stolen     string // what somebody can do who has read it
}

func (k keyFile) get() (ed25519.PrivateKey, error) {
	key, err := k.read()
	if errors.Is(err, fs.ErrNotExist) {
		return k.make()
	}
	return key, err
}

// read reads the key, which is in PKCS #8 and PEM (RFC 5958, RFC 7468).
func (k keyFile) read() (ed25519.PrivateKey, error) {
	bad := func(why string) error {
		return vfs.Errorf(vfs.Invalid, "the %s %s %s. Mend that, or remove the file: a new key is made then, and %s", k.what, k.path, why, k.lost)
	}
	fi, err := os.Lstat(k.path)
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
		return nil, bad("belongs to somebody else, or others can read it (chmod 600; whoever has read it can " + k.stolen + ")")
	}
	text, err := os.ReadFile(k.path)
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

// make makes a key, and stores it before anybody can use it.
func (k keyFile) make() (ed25519.PrivateKey, error) {
	_, key, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return nil, err
	}
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return nil, err
	}
	if err := WriteFile(k.path, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der})); err != nil {
		return nil, vfs.Errorf(vfs.Denied, "the %s cannot be kept in %s: %v", k.what, filepath.Dir(k.path), Reason(err))
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
