package operator

import (
	"crypto/sha256"
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"capd/vfs"
)

// Subject is somebody who holds grants: KIND:ID, such as person:ada or agent-run:builder.
// The kind says what the defaults and the rules of the host allow. The id is 1 to 64 of
// A-Z a-z 0-9 . _ -. That of an agent's run may be CONVERSATION:RUN, two of these.
type Subject string

// The kinds of subjects.
const (
	Core       = "core"       // parts of the program that runs the host
	AgentRun   = "agent-run"  // one run of an agent
	Extension  = "extension"  // code that somebody added to the program
	Automation = "automation" // what runs without a person, at a time or at an event
	Person     = "person"
)

// SubjectKinds are the kinds of subjects.
func SubjectKinds() []string { return []string{Core, AgentRun, Extension, Automation, Person} }

var (
	subjectForm = regexp.MustCompile(`^(?:(?:core|extension|automation|person):[A-Za-z0-9._-]{1,64}|agent-run:[A-Za-z0-9._-]{1,64}(?::[A-Za-z0-9._-]{1,64})?)$`)
	bareName    = regexp.MustCompile(`^[A-Za-z0-9._-]{1,64}$`)
	grantForm   = regexp.MustCompile(`^g[0-9]+$`)
)

// ParseSubject parses KIND:ID. NAME alone is agent-run:NAME. It answers invalid, also for
// an agent's run that is called g and a number, as the id of a grant is.
func ParseSubject(text string) (Subject, error) {
	if !strings.Contains(text, ":") {
		text = AgentRun + ":" + text
	}
	s := Subject(text)
	switch {
	case subjectForm.MatchString(text) && !grantForm.MatchString(s.Name()):
		return s, nil
	case subjectForm.MatchString(text):
		return "", vfs.Errorf(vfs.Invalid, "this could be taken for a grant's id; write a name that is not g and a number")
	}
	kind, _, _ := strings.Cut(text, ":")
	for _, known := range SubjectKinds() {
		if kind == known {
			return "", vfs.Errorf(vfs.Invalid, "this is no guest's name; write 1 to 64 of A-Z a-z 0-9 . _ -, alone or after %s:", kind)
		}
	}
	return "", vfs.Errorf(vfs.Invalid, "%s is no kind of guest; write NAME alone, or KIND:NAME where KIND is %s", strconv.Quote(vfs.Printable(kind)), strings.Join(SubjectKinds(), ", "))
}

// Kind returns what is before the first colon.
func (s Subject) Kind() string {
	kind, _, _ := strings.Cut(string(s), ":")
	return kind
}

// ID returns what is after the first colon.
func (s Subject) ID() string {
	_, id, _ := strings.Cut(string(s), ":")
	return id
}

// Name returns the text that is printed for s: NAME for agent-run:NAME, and s itself for
// any other.
func (s Subject) Name() string {
	if id := s.ID(); s.Kind() == AgentRun && bareName.MatchString(id) {
		return id
	}
	return string(s)
}

// DirName returns the name of a directory of s. It is that of s, with + for each colon. If
// that has capital letters, or is no name of a file, a sum is added, so that no two subjects
// share a directory where case does not count.
func (s Subject) DirName() string {
	name := strings.ReplaceAll(s.Name(), ":", "+")
	if strings.ToLower(name) != name || strings.Trim(name, ".") == "" {
		name = fmt.Sprintf("%s+%.4x", name, sha256.Sum256([]byte(name)))
	}
	return name
}

// GuestName returns the form in which [Grant].Guest names who text means: a subject in
// either form, a share such as agent/2, or the id of a grant. Any other text is returned as
// it is.
func GuestName(text string) string {
	holder, share, shared := strings.Cut(text, "/")
	s, err := ParseSubject(holder)
	switch {
	case err != nil:
		return text
	case shared:
		return s.Name() + "/" + share
	}
	return s.Name()
}
