package state

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"capd/locator"
	"capd/vfs"
)

// exampleKey is the key of RFC 8410, section 10.3, as openssl would write it.
const exampleKey = `-----BEGIN PRIVATE KEY-----
MC4CAQAwBQYDK2VwBCIEINTuctv5E1hK1bbY8fdp+K06/nwoy/HU++CXqI9EdVhC
-----END PRIVATE KEY-----
`

func TestKeyIsKept(t *testing.T) {
	s := Dir(t.TempDir())
	require.NoError(t, os.WriteFile(s.key()+".new", []byte("half a k"), 0o644)) // left by a start that was interrupted
	first, err := s.Key()
	require.NoError(t, err)
	again, err := s.Key()
	require.NoError(t, err)
	require.Equal(t, first, again)
	fi, err := os.Stat(s.key())
	require.NoError(t, err)
	if runtime.GOOS != "windows" {
		require.Equal(t, os.FileMode(0o600), fi.Mode())
	}
	all, err := os.ReadDir(string(s))
	require.NoError(t, err)
	require.Len(t, all, 1, "only the key is there")

	require.NoError(t, os.Remove(s.key()))
	other, err := s.Key()
	require.NoError(t, err)
	require.NotEqual(t, first, other)

	require.NoError(t, os.WriteFile(s.key(), []byte(exampleKey), 0o600)) // a key of the operator's own
	own, err := s.Key()
	require.NoError(t, err)
	der, err := x509.MarshalPKIXPublicKey(own.Public())
	require.NoError(t, err)
	require.Equal(t, "sha-256:oekVYFTgT6yJmunydRMs3Ael28TqLCrTof_G4NJTaB8", locator.KeyOf(der).String())
}

// A key that cannot be used is not changed, and the error says what to do.
func TestBadKey(t *testing.T) {
	weak, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	der, err := x509.MarshalPKCS8PrivateKey(weak)
	require.NoError(t, err)
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
		require.NoError(t, os.WriteFile(elsewhere, []byte(exampleKey), 0o600))
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
			require.NoError(t, c.make(s.key()))
			before, err := os.Lstat(s.key())
			require.NoError(t, err)
			_, err = s.Key()
			require.ErrorIs(t, err, vfs.Invalid)
			require.Contains(t, err.Error(), c.says)
			require.Contains(t, err.Error(), s.key())
			require.Contains(t, err.Error(), "remove the file")
			after, err := os.Lstat(s.key())
			require.NoError(t, err)
			require.Equal(t, before.Mode(), after.Mode())
			require.Equal(t, before.Size(), after.Size())
			all, err := os.ReadDir(string(s))
			require.NoError(t, err)
			require.Len(t, all, 1, "nothing was made")
		})
	}
}

func TestKeyCannotBeKept(t *testing.T) {
	s := Dir(filepath.Join(t.TempDir(), "none"))
	_, err := s.Key()
	require.ErrorIs(t, err, vfs.Denied)
}
