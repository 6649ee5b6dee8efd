package web

import (
	"bufio"
	"context"
	"crypto/rand"
	"encoding/base64"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"capd/client"
	"capd/locator"
	"capd/tests/scene"
	"capd/vfs/vfstest"
	"capd/vfs/vfstest/check"
)

// opened serves h to every guest, on a real socket.
func opened(t *testing.T, h http.HandlerFunc) (d *Door, address string) {
	t.Helper()
	s := scene.Serve(t, scene.InMemory(t, vfstest.Tree{}), scene.Options{})
	loc, _ := s.Grant(t, "agent", "", false)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	check.OK(t, err)
	d = &Door{
		Names: Names(l.Addr()),
		Dial: func(ctx context.Context, _ [locator.SecretSize]byte) (*client.Conn, error) {
			return client.Dial(ctx, loc.String())
		},
		Open: func(context.Context, *client.Conn) (http.Handler, <-chan struct{}, func(), error) {
			return h, make(chan struct{}), func() {}, nil
		},
	}
	server := &http.Server{Handler: d}
	go server.Serve(l)
	t.Cleanup(func() { server.Close(); d.Close() })
	return d, l.Addr().String()
}

func secret() string {
	var b [locator.SecretSize]byte
	_, _ = rand.Read(b[:])
	return base64.RawURLEncoding.EncodeToString(b[:])
}

// sends begins a request whose body does not come.
func sends(t *testing.T, address string, header ...string) net.Conn {
	t.Helper()
	c, err := net.Dial("tcp", address)
	check.OK(t, err)
	t.Cleanup(func() { c.Close() })
	_, err = fmt.Fprintf(c, "POST / HTTP/1.1\r\n%s\r\nContent-Length: 100\r\n\r\n", strings.Join(header, "\r\n"))
	check.OK(t, err)
	check.OK(t, c.SetDeadline(time.Now().Add(10*time.Second)))
	return c
}

// TestBodyThatDoesNotCome: who is refused holds no connection, and a guest holds one for a time.
func TestBodyThatDoesNotCome(t *testing.T) {
	defer func(was time.Duration) { stall = was }(stall)
	stall = 200 * time.Millisecond
	_, address := opened(t, func(w http.ResponseWriter, r *http.Request) {
		if _, err := io.ReadAll(r.Body); err != nil {
			http.Error(w, "late", http.StatusRequestTimeout)
		}
	})
	for want, header := range map[int][]string{
		403: {"Host: evil"}, 401: {"Host: " + address}, 408: {"Host: " + address, "Authorization: Bearer " + secret()},
	} {
		c := sends(t, address, header...)
		all, err := io.ReadAll(c) // to the end of the connection
		check.OK(t, err)
		r, err := http.ReadResponse(bufio.NewReader(strings.NewReader(string(all))), nil)
		if check.OK(t, err); r.StatusCode != want {
			t.Errorf("%q is answered with %s, want %d", header, r.Status, want)
		}
	}
}

// TestAnswerThatIsNotTaken: a guest that takes no answer ends with its connection, and one that waits longer for an answer does not.
func TestAnswerThatIsNotTaken(t *testing.T) {
	defer func(was time.Duration) { stall = was }(stall)
	stall = 200 * time.Millisecond
	ended := make(chan error, 1)
	_, address := opened(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/slow" {
			_, _ = io.ReadAll(r.Body)
			time.Sleep(3 * stall)
			if r.Context().Err() == nil {
				_, _ = io.WriteString(w, "done")
			}
			return
		}
		var err error
		for err == nil {
			_, err = w.Write(make([]byte, 1<<20))
		}
		ended <- err
	})
	r, err := http.NewRequest("POST", "http://"+address+"/slow", strings.NewReader("body"))
	check.OK(t, err)
	r.Header.Set("Authorization", "Bearer "+secret())
	answer, err := http.DefaultClient.Do(r)
	check.OK(t, err)
	defer answer.Body.Close()
	if b, err := io.ReadAll(answer.Body); string(b) != "done" {
		t.Errorf("a call that takes long is answered with %q, %v", b, err)
	}
	c, err := net.Dial("tcp", address)
	check.OK(t, err)
	defer c.Close()
	_, err = fmt.Fprintf(c, "GET / HTTP/1.1\r\nHost: %s\r\nAuthorization: Bearer %s\r\n\r\n", address, secret())
	check.OK(t, err)
	select {
	case <-ended:
	case <-time.After(20 * time.Second):
		t.Error("an answer that nobody takes is still written")
	}
}

// TestManyGuests: more guests than are kept take the places of those who do nothing, and not of those who have a request under way.
func TestManyGuests(t *testing.T) {
	held, release := make(chan struct{}, 64), make(chan struct{})
	d, address := opened(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/hold" {
			held <- struct{}{}
			<-release
		}
	})
	get := func(path, bearer string) int {
		r, err := http.NewRequest("GET", "http://"+address+path, nil)
		check.OK(t, err)
		r.Header.Set("Authorization", "Bearer "+bearer)
		answer, err := http.DefaultClient.Do(r)
		check.OK(t, err)
		answer.Body.Close()
		return answer.StatusCode
	}
	busy := secret()
	statuses := make(chan int, MaxRequests)
	for range MaxRequests {
		go func() { statuses <- get("/hold", busy) }()
	}
	for range MaxRequests {
		<-held
	}
	if got := get("/", busy); got != http.StatusServiceUnavailable {
		t.Errorf("request %d of one guest is answered with %d", MaxRequests+1, got)
	}
	for i := range MaxGuests + 20 {
		if got := get("/", secret()); got != http.StatusOK {
			t.Fatalf("guest %d is answered with %d", i, got)
		}
	}
	d.mu.Lock()
	if n := len(d.guests); n > MaxGuests {
		t.Errorf("%d guests are kept", n)
	}
	d.mu.Unlock()
	close(release)
	for range MaxRequests {
		if got := <-statuses; got != http.StatusOK {
			t.Errorf("the guest who was busy is answered with %d", got)
		}
	}
}
