package physical

import (
	"errors"
	"sync"
	"testing"
	"testing/synctest"
)

// Changes of a directory that wait while it is being synced share the next sync, and none
// of them answers before that.
func TestSyncsAreShared(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var s syncs
		var mu sync.Mutex
		begun, ended := 0, 0
		disk := make(chan error)
		write := func() error {
			mu.Lock()
			begun++
			mu.Unlock()
			err := <-disk
			mu.Lock()
			ended++
			mu.Unlock()
			return err
		}
		answered := map[int]int{} // how many by which writing
		failed := errors.New("failed")
		wait := func(p place, want error) {
			go func() {
				if err := s.sync(p, write); err != want {
					t.Errorf("sync: %v, want %v", err, want)
				}
				mu.Lock()
				answered[ended]++
				mu.Unlock()
			}()
			synctest.Wait()
		}
		is := func(wantBegun int, want map[int]int) {
			t.Helper()
			synctest.Wait()
			mu.Lock()
			defer mu.Unlock()
			if begun != wantBegun || len(answered) != len(want) || answered[1] != want[1] || answered[2] != want[2] {
				t.Errorf("%d writings have begun, want %d; answered were %v, want %v", begun, wantBegun, answered, want)
			}
		}
		here, there := place{path: "here"}, place{path: "there"}
		wait(here, nil)
		for range 10 {
			wait(here, failed)
		}
		is(1, map[int]int{})
		disk <- nil
		is(2, map[int]int{1: 1})
		wait(there, nil) // another directory does not wait
		is(3, map[int]int{1: 1})
		disk <- failed
		is(3, map[int]int{1: 1, 2: 10})
		disk <- nil
		synctest.Wait()
		wait(here, nil) // nothing is left of an earlier one
		disk <- nil
		synctest.Wait()
		if begun != 4 || ended != 4 || len(s.running)+len(s.next) > 0 {
			t.Errorf("%d began and %d ended, and left are %d", begun, ended, len(s.running)+len(s.next))
		}
	})
}
