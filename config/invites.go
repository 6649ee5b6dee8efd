package config

import (
	"time"

	"github.com/goccy/go-yaml/ast"

	"capd/operator"
	"capd/vfs"
)

// Invite is somebody who may ask for grants. See docs/requests.md.
type Invite struct {
	Subject     string                // as operator.ParseSubject reads it; unique
	Permissions []operator.Permission // what is given without asking anybody; at most operator.MaxPermissions
	Source      string                // who said so, one of invitedBy; "" for the first
	Expires     time.Duration         // after how long the invitation ends, from when it was made; 0 for never
	LocatorFile string                // the file on the host that its locator is written to
	Where       string                // "NAME:LINE:COLUMN" of the invitation in the file
}

var invitedBy = []string{operator.ByManifest, operator.ByConversation, operator.ByCore}

// invite reads an invitation. files are the locator files of guests and of other invitations.
func (r *reader) invite(n ast.Node, others, files map[string]place) Invite {
	i := Invite{Where: r.where(placeOf(n))}
	r.mapping(n, "an invitation",
		key{"subject", "who may ask, such as subject: extension:lint", r.text("subject", &i.Subject, func(at place, s string) {
			subject, err := operator.ParseSubject(s)
			other, taken := others[subject.Name()]
			switch {
			case err != nil:
				r.mistake(at, "subject is %s: %s", quote(s), vfs.Message(err))
			case taken:
				r.mistake(at, "the invitation in line %d is for %s too; write one for both", other.line, quote(subject.Name()))
			default:
				others[subject.Name()] = at
			}
		})},
		key{"permissions", "", r.permissions(&i.Permissions)},
		key{"source", "", r.word("source", &i.Source, invitedBy...)},
		key{"expires", "", r.text("expires", new(string), r.span("expires", &i.Expires))},
		key{"locatorFile", "a file that the host writes the locator to, such as locatorFile: lint.locator", r.text("locatorFile", &i.LocatorFile, r.locatorFile(files))},
	)
	return i
}

func (r *reader) permissions(into *[]operator.Permission) func(ast.Node) {
	return func(n ast.Node) {
		var texts []string
		r.texts("permissions", &texts, func(at place, s string) {
			p, err := operator.ParsePermission(s)
			if err != nil {
				r.mistake(at, "%s", vfs.Message(err))
			}
			*into = append(*into, p)
		})(n)
		if len(*into) > operator.MaxPermissions {
			r.mistake(placeOf(n), "there are %d permissions, and at most %d can be; write several rights in one", len(*into), operator.MaxPermissions)
		}
	}
}

// locatorFile returns a check of a locatorFile, which is none of files.
func (r *reader) locatorFile(files map[string]place) func(at place, s string) {
	return func(at place, s string) {
		other, taken := files[s]
		switch {
		case s == "":
			r.mistake(at, "locatorFile is empty; write a file that the host writes the locator to")
		case taken:
			r.mistake(at, "the locatorFile in line %d is %s too; write another", other.line, quote(s))
		default:
			files[s] = at
		}
	}
}
