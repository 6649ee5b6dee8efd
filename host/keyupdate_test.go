package host_test

import (
	"bytes"
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/sha256"
	"crypto/tls"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"net"
	"os"
	"strings"
	"testing"
	"time"

	"capd/host"
	"capd/locator"
)

// A sealer seals TLS 1.3 records by hand (AES-128-GCM, SHA-256), so that it can ask for new keys: crypto/tls never does.
type sealer struct {
	secret []byte
	aead   cipher.AEAD
	iv     []byte
	seq    uint64
}

func expand(secret []byte, label string, n int) []byte {
	l := "tls13 " + label
	info := append([]byte{byte(n >> 8), byte(n), byte(len(l))}, l...)
	info = append(info, 0)
	b, err := hkdf.Expand(sha256.New, secret, string(info), n)
	if err != nil {
		panic(err)
	}
	return b
}

func (r *sealer) key(secret []byte) {
	r.secret = secret
	blk, _ := aes.NewCipher(expand(secret, "key", 16))
	r.aead, _ = cipher.NewGCM(blk)
	r.iv, r.seq = expand(secret, "iv", 12), 0
}

func (r *sealer) seal(dst []byte, typ byte, b []byte) []byte {
	plain := append(append([]byte{}, b...), typ)
	head := []byte{23, 3, 3, 0, 0}
	binary.BigEndian.PutUint16(head[3:], uint16(len(plain)+16))
	nonce := bytes.Clone(r.iv)
	for i := range 8 {
		nonce[4+i] ^= byte(r.seq >> (56 - 8*i))
	}
	r.seq++
	return append(dst, r.aead.Seal(head, nonce, plain, head)...)
}

func (r *sealer) update(dst []byte) []byte {
	dst = r.seal(dst, 22, []byte{24, 0, 0, 1, 1}) // KeyUpdate, update_requested
	r.key(expand(r.secret, "traffic upd", 32))
	return dst
}

// A guest that asks for new keys and reads no answer is disconnected before many answers of TLS wait for it.
func TestKeyUpdateFlood(t *testing.T) {
	s, address, _ := startTLS(t, host.Options{})
	nc, err := net.Dial("tcp", address)
	ok(t, err)
	defer nc.Close()
	var log bytes.Buffer
	c := tls.Client(nc, &tls.Config{InsecureSkipVerify: true, NextProtos: []string{locator.Protocol}, MinVersion: tls.VersionTLS13, KeyLogWriter: &log})
	ok(t, c.Handshake())
	if suite := c.ConnectionState().CipherSuite; suite != tls.TLS_AES_128_GCM_SHA256 {
		t.Fatalf("the suite is %x", suite)
	}
	r := &sealer{}
	for l := range strings.Lines(log.String()) {
		if f := strings.Fields(l); f[0] == "CLIENT_TRAFFIC_SECRET_0" {
			secret, err := hex.DecodeString(f[2])
			ok(t, err)
			r.key(secret)
		}
	}
	// A Bootstrap, and then a frame of 1 MiB that arrives byte by byte, with 15 requests between each two.
	boot := make([]byte, 48)
	for i, w := range []uint64{5 << 32, 1<<32 | 1<<48, 8, 1<<32 | 1<<48, 0, 0} {
		binary.LittleEndian.PutUint64(boot[8*i:], w)
	}
	_, err = nc.Write(r.seal(nil, 23, boot))
	ok(t, err)
	body := make([]byte, 1<<20)
	binary.LittleEndian.PutUint32(body[4:], 1<<17-1)
	var out []byte
	ok(t, nc.SetWriteDeadline(time.Now().Add(20*time.Second)))
	for _, b := range body {
		out = r.seal(out[:0], 23, []byte{b})
		for range 15 {
			out = r.update(out)
		}
		if _, err = nc.Write(out); err != nil {
			break
		}
	}
	if err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
		t.Fatalf("the guest is still there: %v", err)
	}
	for end := time.Now().Add(30 * time.Second); s.Conns() > 0; time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("its connection is still there")
		}
	}
}
