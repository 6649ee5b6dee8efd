package authority

import (
	"context"
	"sync"

	"capd/operator"
	"capd/vfs"
)

// invitation is an invitation that some connection uses. ctx ends with it.
type invitation struct {
	operator.Invite // guarded by invitations.mu
	number          int64
	ctx             context.Context
	end             context.CancelCauseFunc
	users           int // guarded by invitations.mu
}

// invitations are those that are used.
type invitations struct {
	terms sync.RWMutex // held to change what one says, and for reading to learn it
	mu    sync.Mutex
	used  map[int64]*invitation
}

// shut ends those of the invitations with these numbers that are used.
func (u *invitations) shut(numbers []int64, why error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	for _, n := range numbers {
		if i := u.used[n]; i != nil {
			i.end(why)
			delete(u.used, n)
		}
	}
}

// expire ends those that are used and whose time is over.
func (u *invitations) expire(now int64) {
	u.mu.Lock()
	defer u.mu.Unlock()
	for n, i := range u.used {
		if i.ExpiresMs != 0 && i.ExpiresMs <= now {
			i.end(vfs.Expired)
			delete(u.used, n)
		}
	}
}

// say sets what the invitation with that number says, if it is used.
func (u *invitations) say(number int64, data operator.Invite) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if i := u.used[number]; i != nil {
		i.Invite = data
	}
}

// use returns the invitation with that number, which has one more user.
func (u *invitations) use(number int64) *invitation {
	u.mu.Lock()
	defer u.mu.Unlock()
	i := u.used[number]
	if i == nil {
		i = &invitation{number: number}
		i.ctx, i.end = context.WithCancelCause(context.Background())
		if u.used == nil {
			u.used = map[int64]*invitation{}
		}
		u.used[number] = i
	}
	i.users++
	return i
}

func (u *invitations) leave(i *invitation) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if i.users--; i.users == 0 {
		i.end(context.Canceled)
		if u.used[i.number] == i {
			delete(u.used, i.number)
		}
	}
}
