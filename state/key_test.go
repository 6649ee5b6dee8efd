package state

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"runtime"
	"strings"
	"testing"

	"capd/locator"
	"capd/vfs"
	"capd/vfs/vfstest/check"
)

// exampleKey is the key of RFC 8410, section 10.3, as openssl would write it.
const exampleKey = `-----BEGIN PRIVATE KEY-----
MC4CAQAwBQYDK2VwBCIEINTuctv5E1hK1bbY8fdp+K06/nwoy/HU++CXqI9EdVhC
-----END PRIVATE KEY-----
`

func TestKeyIsKept(t *testing.T) {
	s := Dir(t.TempDir())
	check.OK(t, os.WriteFile(s.key()+".new", []byte("half a k"), 0o644)) // left by a start that was interrupted
	first, err := s.Key()
	check.OK(t, err)
	again, err := s.Key()
	check.OK(t, err)
	if got, want := again, first; !reflect.DeepEqual(got, want) {
		t.Fatalf("%v, want %v", got, want)
	}
	fi, err := os.Stat(s.key())
	check.OK(t, err)
	if runtime.GOOS != "windows" {
		if got, want := fi.Mode(), os.FileMode(0o600); !reflect.DeepEqual(got, want) {
			t.Fatalf("%v, want %v", got, want)
		}
	}
	all, err := os.ReadDir(string(s))
	check.OK(t, err)
	if got := all; len(got) != 1 {
		t.Fatalf("only the key is there: %v, want %d", got, 1)
	}

	check.OK(t, os.Remove(s.key()))
	other, err := s.Key()
	check.OK(t, err)
	if got := other; reflect.DeepEqual(got, first) {
		t.Fatal("the key that was removed was made again")
	}

	check.OK(t, os.WriteFile(s.key(), []byte(exampleKey), 0o600)) // a key of the operator's own
	own, err := s.Key()
	check.OK(t, err)
	der, err := x509.MarshalPKIXPublicKey(own.Public())
	check.OK(t, err)
	if got, want := locator.KeyOf(der).String(), "sha-256:oekVYFTgT6yJmunydRMs3Ael28TqLCrTof_G4NJTaB8"; got != want {
		t.Fatalf("%q, want %q", got, want)
	}
}

// A key that cannot be used is not changed, and the error says what to do.
func TestBadKey(t *testing.T) {
	weak, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	check.OK(t, err)
	der, err := x509.MarshalPKCS8PrivateKey(weak)
	check.OK(t, err)
	write := func(content string, mode os.FileMode) func(string) error {
		return func(path string) error {
			if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
				return err
			}
			return os.Chmod(path, mode)
		}
	}
	cases := map[string]struct {
		make func(path string) error
		says string
	}{
		"empty":        {write("", 0o600), "not a private key"},
		"cut short":    {write(exampleKey[:80], 0o600), "not a private key"},
		"garbage":      {write(strings.Repeat("\x00", 1<<20), 0o600), "not a private key"},
		"no key in it": {write(strings.ReplaceAll(exampleKey, "MC4CAQAwBQYDK2VwBCIEINTuctv5E1hK1bbY8fdp", "AAAA"), 0o600), "not an Ed25519 key"},
		"a public key": {write(strings.ReplaceAll(exampleKey, "PRIVATE", "PUBLIC"), 0o600), "not a private key"},
		"another kind": {write(string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der})), 0o600), "not an Ed25519 key"},
		"a directory":  {func(path string) error { return os.Mkdir(path, 0o700) }, "not a regular file"},
	}
	if runtime.GOOS != "windows" {
		for name, mode := range map[string]os.FileMode{"others read it": 0o604, "a group reads it": 0o640, "others write it": 0o602} {
			c := cases["empty"]
			c.make, c.says = write(exampleKey, mode), "chmod 600"
			cases[name] = c
		}
		elsewhere := filepath.Join(t.TempDir(), "key")
		check.OK(t, os.WriteFile(elsewhere, []byte(exampleKey), 0o600))
		c := cases["a directory"]
		c.make = func(path string) error { return os.Symlink(elsewhere, path) }
		cases["a link"] = c
		if makeFIFO != nil {
			c.make = makeFIFO
			cases["a FIFO"] = c
		}
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			s := Dir(t.TempDir())
			check.OK(t, c.make(s.key()))
			before, err := os.Lstat(s.key())
			check.OK(t, err)
			_, err = s.Key()
			if !errors.Is(err, vfs.Invalid) {
				t.Fatalf("%v, want %v", err, vfs.Invalid)
			}
			if got, part := err.Error(), c.says; !strings.Contains(got, part) {
				t.Fatalf("%q does not contain %q", got, part)
			}
			if got, part := err.Error(), s.key(); !strings.Contains(got, part) {
				t.Fatalf("%q does not contain %q", got, part)
			}
			if got, part := err.Error(), "remove the file"; !strings.Contains(got, part) {
				t.Fatalf("%q does not contain %q", got, part)
			}
			after, err := os.Lstat(s.key())
			check.OK(t, err)
			if got, want := after.Mode(), before.Mode(); !reflect.DeepEqual(got, want) {
				t.Fatalf("%v, want %v", got, want)
			}
			if got, want := after.Size(), before.Size(); !reflect.DeepEqual(got, want) {
				t.Fatalf("%v, want %v", got, want)
			}
			all, err := os.ReadDir(string(s))
			check.OK(t, err)
			if got := all; len(got) != 1 {
				t.Fatalf("nothing was made: %v, want %d", got, 1)
			}
		})
	}
}

func TestKeyCannotBeKept(t *testing.T) {
	s := Dir(filepath.Join(t.TempDir(), "none"))
	_, err := s.Key()
	if !errors.Is(err, vfs.Denied) {
		t.Fatalf("%v, want %v", err, vfs.Denied)
	}
}

// The record has a key of its own, which is kept as well.
func TestRecordKey(t *testing.T) {
	s := Dir(t.TempDir())
	_, err := s.ReadRecordKey()
	check.Is(t, "no key", err, vfs.NotFound)
	first, err := s.RecordKey()
	check.OK(t, err)
	host, err := s.Key()
	check.OK(t, err)
	again, err := s.ReadRecordKey()
	check.OK(t, err)
	if !again.Equal(first) || first.Equal(host) {
		t.Error("the record's key is another one, or the host's")
	}
	check.OK(t, os.Chmod(s.join("record.key"), 0o644))
	if _, err := s.ReadRecordKey(); runtime.GOOS != "windows" && (vfs.CodeOf(err) != vfs.Invalid || !strings.Contains(err.Error(), "sign another record")) {
		t.Errorf("a key that others can read: %v", err)
	}
}
