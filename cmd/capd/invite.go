package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"capd/operator"
	"capd/vfs"
)

type inviteCommand struct {
	Subject    string       `arg:"" help:"Who asks: NAME of an agent's run, or KIND:NAME, such as extension:lint."`
	Permission []permission `sep:"none" placeholder:"P" help:"Give this without asking, such as filesystem:workspace:read,list. May be repeated."`
	Source     string       `default:"manifest" enum:"manifest,conversation,core" help:"Who said so: manifest, conversation or core (default: manifest)."`
	Expires    span         `placeholder:"T" help:"End the invitation after this time, such as 2h or 7d."`
	JSON       bool         `name:"json" help:"Print a JSON object: the invitation, and its locators, each with the way to connect."`
	Via        string       `default:"unix" placeholder:"WAY" help:"How to connect: unix (this machine, the default), tls, tls:HOST:PORT, or all."`
	stateFlag
}

func (inviteCommand) Help() string {
	return `An invitation gives nothing by itself. Whoever has its locator can ask, as that subject, for parts of the
roots (capd roots), with capd request or through the interface Petitioner. Somebody at the host decides: capd watch --ask,
or capd asks and capd ask. What was asked for waits meanwhile.

A permission says what is given without asking: filesystem:KIND:RIGHT,… with the kind of a root and rights
in it. It is bounded by the defaults of the roots, as all that can be asked for; nothing secret can be asked for.

capd grants lists what was got by asking. capd invites lists the invitations and ends them; capd revoke ends those
of a subject with everything that it holds.

Examples:
  capd invite builder
  capd invite extension:lint --permission filesystem:workspace:read,list --expires 30d
  capd invite person:ada --via tls
  CAPD_CAP=$(capd invite builder) capd request project --rights read,list --reason 'to review it'`
}

// permission is a flag with a permission.
type permission operator.Permission

// UnmarshalText is [operator.ParsePermission].
func (p *permission) UnmarshalText(text []byte) error {
	got, err := operator.ParsePermission(string(text))
	if err != nil {
		return usageError{vfs.Message(err)}
	}
	*p = permission(got)
	return nil
}

func (c *inviteCommand) Run(e *env) error {
	if err := e.stdout.open(); err != nil {
		return err
	}
	con, err := c.console(e)
	if err != nil {
		return err
	}
	unix, ways, err := waysOf(c.stateFlag, c.Via)
	if err != nil {
		return err
	}
	t := operator.InviteTerms{Source: c.Source, Expires: time.Duration(c.Expires)}
	for _, p := range c.Permission {
		t.Permissions = append(t.Permissions, operator.Permission(p))
	}
	ctx, cancel := e.uninterrupted()
	defer cancel()
	i, text, err := con.Invite(ctx, c.Subject, t)
	if err != nil {
		return err
	}
	if roots, err := con.Roots(ctx); err == nil && len(roots) == 0 {
		fmt.Fprintln(e.stderr, "capd: this host has no roots, so nothing can be asked for; a configuration declares them")
	}
	takeBack := func(ctx context.Context) error { return con.RevokeInvite(ctx, i.ID) }
	return e.deliver(i.ID, takeBack, func() error {
		all, err := located(text, unix, ways)
		if err != nil {
			return err
		}
		return printLocated(e, c.JSON, all, struct {
			operator.Invite
			Locators []locatedJSON `json:"locators"`
		}{i, all})
	})
}

type invitesCommand struct {
	All    bool   `help:"Show those too that have ended."`
	Revoke string `placeholder:"ID" help:"End the invitation with that id."`
	JSON   bool   `name:"json" help:"Print a JSON array, oldest first."`
	stateFlag
}

func (invitesCommand) Help() string {
	return `Lists the invitations: who may ask for grants, and what is given without asking. Ending one does not take back
what was got with it; capd revoke does. SOURCE is who says what is given without asking. BY is who made the invitation: operator
(capd invite), or config. An invitation of the configuration that was ended is made again at the next start.

Examples:
  capd invites
  capd invites --revoke i3
  capd invites --json --all | jq -r '.[].subject'`
}

func (c *invitesCommand) Run(e *env) error {
	con, err := c.console(e)
	if err != nil {
		return err
	}
	if c.Revoke != "" {
		if err := con.RevokeInvite(e, c.Revoke); err != nil {
			return err
		}
		e.result("ended invitation %s", c.Revoke)
		return nil
	}
	all, err := con.Invites(e)
	if err != nil {
		return err
	}
	var shown []operator.Invite
	for _, i := range all {
		if c.All || i.State == operator.Active {
			shown = append(shown, i)
		}
	}
	return printList(e, c.JSON, shown, "ID\tSUBJECT\tPERMISSIONS\tSOURCE\tSTATE\tMADE\tBY", func(i operator.Invite) string {
		return fmt.Sprintf("%s\t%s\t%s\t%s\t%s\t%s\t%s", i.ID, i.Subject.Name(), permissionsOf(i), i.Source, stateOf(operator.Grant{State: i.State, ExpiresMs: i.ExpiresMs}),
			time.UnixMilli(i.MadeMs).Local().Format(time.DateTime), i.MadeBy)
	})
}

func permissionsOf(i operator.Invite) string {
	var all []string
	for _, p := range i.Permissions {
		all = append(all, strings.TrimPrefix(p.String(), "filesystem:"))
	}
	return strings.Join(all, " ")
}
