package physical

import (
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
)

// While a name is locked, other names are not, even in the same directory. A directory is
// locked by changes of it, together with everything below it.
func TestNameLocks(t *testing.T) {
	for _, c := range []struct {
		held, asked []string
		waits       bool
	}{
		{[]string{"a"}, []string{"a"}, true},
		{[]string{"a"}, []string{"b"}, false},
		{[]string{"d/a"}, []string{"d/b"}, false},
		{[]string{"d/a"}, []string{"d/a"}, true},
		{[]string{"d/a"}, []string{"d"}, true},
		{[]string{"d"}, []string{"d/e/f"}, true},
		{[]string{"d"}, []string{"dd"}, false},
		{[]string{"d/a", "e/b"}, []string{"e/a", "d/b"}, false},
		{[]string{"d/a", "e/b"}, []string{"e/b", "x"}, true},
		{[]string{"d", "e/d"}, []string{"e/d/x"}, true},
		{[]string{"d", "e/d"}, []string{"e/x"}, false},
		{[]string{"d/a", "d"}, []string{"d/b"}, true},
	} {
		var l nameLocks
		unlock := l.lock(c.held, 0)
		got := make(chan struct{})
		go func() {
			l.lock(c.asked, 0)()
			close(got)
		}()
		if !c.waits {
			<-got // for ever, if it waits
		} else {
			for l.uses() < len(claimsOf(c.held, 0))+len(claimsOf(c.asked, 0)) { // until it has asked
			}
			select {
			case <-got:
				t.Errorf("with %q held, %q is to be had", c.held, c.asked)
			default:
			}
		}
		unlock()
		<-got
		if n := l.uses(); n != 0 {
			t.Errorf("%d uses are left", n)
		}
	}
}

func (l *nameLocks) uses() (n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, name := range l.held {
		n += name.users
	}
	return n
}

// Nobody changes a name, or what is below it, while another does. No order of names makes
// two callers wait for each other.
func TestNameLocksExclude(t *testing.T) {
	paths := []string{"a", "b", "a/c", "a/c/d", "b/c", "b/d", "e"}
	inside := map[string]int{}
	var mu sync.Mutex
	note := func(path string, n int) {
		mu.Lock()
		defer mu.Unlock()
		inside[path] += n
		for other := range inside {
			near := strings.HasPrefix(other+"/", path+"/") || strings.HasPrefix(path+"/", other+"/")
			if inside[other] > 0 && other != path && near || inside[path] > 1 {
				t.Errorf("%s is changed while %s is", path, other)
			}
		}
	}
	var l nameLocks
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 2000 {
				one, two := paths[rand.IntN(len(paths))], paths[rand.IntN(len(paths))]
				if one == two || strings.HasPrefix(two, one+"/") || strings.HasPrefix(one, two+"/") || rand.IntN(2) == 0 {
					two = ""
				}
				both := []string{one}
				if two != "" {
					both = append(both, two)
				}
				unlock := l.lock(both, 0)
				for _, p := range both {
					note(p, 1)
				}
				for _, p := range both {
					note(p, -1)
				}
				unlock()
			}
		})
	}
	wg.Wait()
	if len(l.held) > 0 {
		t.Errorf("%d names are left", len(l.held))
	}
}
