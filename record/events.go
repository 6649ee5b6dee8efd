package record

import (
	"context"
	"sync"

	"capd/database"
	"capd/operator"
)

// news tells those that follow the record that there are more entries. The zero value is ready for use.
type news struct {
	mu sync.Mutex
	ch chan struct{} // closed when there are; nil while nobody waits
}

func (n *news) wait() <-chan struct{} {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.ch == nil {
		n.ch = make(chan struct{})
	}
	return n.ch
}

func (n *news) tell() {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.ch != nil {
		close(n.ch)
		n.ch = nil
	}
}

// Events implements [operator.Events].
func (l *Log) Events(ctx context.Context, from uint64, max int) (all []operator.Event, next, missed uint64, err error) {
	for {
		more := l.news.wait() // before it reads, so that nothing is overlooked
		end, err := l.end(ctx)
		if err != nil {
			return nil, from, 0, err
		}
		if from > end {
			return nil, end, 0, nil
		}
		part, err := readPage(context.WithoutCancel(ctx), l.db, int64(from), int64(max))
		if err != nil {
			return nil, from, 0, err
		}
		if len(part) > 0 {
			return events(part, from)
		}
		select {
		case <-more:
		case <-ctx.Done():
			return nil, from, 0, nil
		}
	}
}

// end returns the number of the next entry.
func (l *Log) end(ctx context.Context) (end uint64, err error) {
	err = l.db.Read(context.WithoutCancel(ctx), func(r *database.Rows) error { return r.Row(selectSize).Scan(&end) })
	return end, err
}

func events(part []stored, from uint64) (all []operator.Event, next, missed uint64, err error) {
	for _, s := range part {
		all = append(all, operator.Event{Number: uint64(s.seq), Entry: s.body})
	}
	return all, uint64(part[len(part)-1].seq) + 1, uint64(part[0].seq) - from, nil
}
