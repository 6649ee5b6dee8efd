package meter

// turnList is a list of turns, in order. A turn is in at most one list.
type turnList struct{ first, last *Turn }

func (l *turnList) push(t *Turn) {
	t.prev, t.next, t.in = l.last, nil, l
	if l.last != nil {
		l.last.next = t
	} else {
		l.first = t
	}
	l.last = t
}

func (l *turnList) remove(t *Turn) {
	if t.prev != nil {
		t.prev.next = t.next
	} else {
		l.first = t.next
	}
	if t.next != nil {
		t.next.prev = t.prev
	} else {
		l.last = t.prev
	}
	t.prev, t.next, t.in = nil, nil, nil
}
