package recent

import "testing"

func TestCacheIsBounded(t *testing.T) {
	held := map[int]int{}
	c := New[int](100, func(v int) { held[v]-- })
	add := func(k int) { held[k]++; c.Add(k, k, 10) }
	for k := range 50 {
		add(k)
		if _, ok := c.Get(0, nil); !ok {
			t.Fatalf("what is used all the while was dropped after %d others", k)
		}
		kept := 0
		for _, n := range held {
			kept += n
		}
		if kept > 10 {
			t.Fatalf("%d values of weight 10 are kept, at most 10 may be", kept)
		}
	}
	add(0) // in place of itself
	if held[0] != 1 {
		t.Errorf("a value that was replaced is held %d times", held[0])
	}
	held[1000]++
	c.Add(1000, 1000, 51)
	if _, ok := c.Get(1000, nil); ok || held[1000] != 0 {
		t.Error("a value of more than half the bound is kept")
	}
	c.Clear()
	for k, n := range held {
		if n != 0 {
			t.Errorf("%d was dropped %d times too few", k, n)
		}
	}
}

func TestCacheForgetsWhatIsNotUsed(t *testing.T) {
	c := New[int, int](10, nil)
	for k := range 11 {
		c.Add(k, k, 1)
	}
	if _, ok := c.Get(0, nil); ok {
		t.Error("the first of 11 values is still in a cache for 10")
	}
	used := 0
	if v, ok := c.Get(10, func(v int) { used = v }); !ok || v != 10 || used != 10 {
		t.Errorf("the last value: %d, %v, used %d", v, ok, used)
	}
}
