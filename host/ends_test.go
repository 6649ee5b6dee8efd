package host

import (
	"testing"
	"testing/synctest"
	"time"
)

// Connections whose grant was taken back end one after the other, and all of them within a second.
func TestEndsApart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &Server{}
		if first := s.nextEnd(); first != Afterlife {
			t.Errorf("the first ends after %v", first)
		}
		last := Afterlife
		for range 4095 {
			next := s.nextEnd()
			if next < last+betweenEnds {
				t.Fatalf("one ends %v after the one before", next-last)
			}
			last = next
		}
		if last > 600*time.Millisecond {
			t.Errorf("the last of 4,096 ends after %v", last)
		}
		time.Sleep(time.Second)
		if again := s.nextEnd(); again != Afterlife {
			t.Errorf("after a while one ends after %v", again)
		}
	})
}

// A connection ends within a second, however often connections lose what they hold and restore
// something again.
func TestNoEndIsFarOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &Server{}
		for range 100_000 {
			if next := s.nextEnd(); next > time.Second {
				t.Fatalf("one ends after %v", next)
			}
		}
	})
}
