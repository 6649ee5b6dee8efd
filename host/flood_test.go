package host_test

import (
	"context"
	"net"
	"os"
	"slices"
	"sync"
	"testing"
	"time"

	"capd/backend/memory"
	"capd/client"
	"capd/host"
	"capd/locator"
	"capd/vfs"
)

// Every honest guest gets in beside a crowd of connections that hold nothing; few have to connect again. The crowd comes
// by the same socket, from the same user.
func TestFloods(t *testing.T) {
	wrong := func(t *testing.T, loc locator.Locator) *client.Conn {
		loc.Secret[0] ^= 1
		nc, err := net.Dial("unix", loc.Socket)
		if err != nil {
			return nil
		}
		c := client.NewConn(nc, loc)
		c.Node(t.Context())
		return c
	}
	for name, flood := range map[string]func(t *testing.T, loc locator.Locator, stay func(interface{ Close() error })){
		"nobody": nil,
		"connect and close": func(_ *testing.T, loc locator.Locator, _ func(interface{ Close() error })) {
			if nc, err := net.Dial("unix", loc.Socket); err == nil {
				nc.Close()
			}
		},
		"connect and stay": func(_ *testing.T, loc locator.Locator, stay func(interface{ Close() error })) {
			if nc, err := net.Dial("unix", loc.Socket); err == nil {
				stay(nc)
			}
		},
		"speak and stay": func(_ *testing.T, loc locator.Locator, stay func(interface{ Close() error })) {
			if nc, err := net.Dial("unix", loc.Socket); err == nil {
				stay(client.NewConn(nc, loc)) // it asks for the Session and does nothing with it
			}
		},
		"wrong secrets": func(t *testing.T, loc locator.Locator, _ func(interface{ Close() error })) {
			if c := wrong(t, loc); c != nil {
				c.Close()
			}
		},
		"wrong secrets that stay": func(t *testing.T, loc locator.Locator, stay func(interface{ Close() error })) {
			if c := wrong(t, loc); c != nil {
				stay(c)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			_, _, _, loc := start(t, memory.New(memory.Limits{}).Root(), host.Options{})
			ctx, cancel := context.WithCancel(t.Context())
			var floods sync.WaitGroup
			begun := make(chan bool, 2)
			defer floods.Wait()
			defer cancel()
			for range 2 {
				if flood == nil {
					break
				}
				floods.Go(func() {
					var stay []interface{ Close() error }
					for i := 0; ctx.Err() == nil; i++ {
						if i == 20 {
							begun <- true
						}
						flood(t, loc, func(c interface{ Close() error }) { stay = append(stay, c) })
						if len(stay) > 500 {
							stay[0].Close()
							stay = stay[1:]
						}
					}
					for _, c := range stay {
						c.Close()
					}
				})
			}
			if flood != nil {
				<-begun
			}
			dials := 4
			if os.Getenv("CAPD_CI") != "" {
				dials = 50
			}
			var took []time.Duration
			again := 0
			for range dials {
				begun := time.Now()
				err := visit(t, loc)
				if vfs.CodeOf(err) == vfs.Stale { // it did not speak in time among so many, and may come again
					again++
					err = visit(t, loc)
				}
				took = append(took, time.Since(begun))
				if err != nil {
					t.Errorf("dial %d, after %v: %v", len(took), took[len(took)-1], err)
				}
			}
			slices.Sort(took)
			t.Logf("p50 %v, p90 %v, longest %v, %d came again", took[len(took)/2], took[len(took)*9/10], took[len(took)-1], again)
			if most := max(1, dials/10); again > most {
				t.Errorf("%d of %d guests had to come again, want at most %d", again, dials, most)
			}
		})
	}
}

// visit connects, uses what loc leads to once, and closes the connection.
func visit(t *testing.T, loc locator.Locator) error {
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	c, err := client.Dial(ctx, loc.String())
	if err != nil {
		return err
	}
	defer c.Close()
	_, err = c.Dir(ctx).Stat(ctx)
	return err
}
