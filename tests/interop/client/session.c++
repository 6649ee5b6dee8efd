// Secrets, and what the host says of itself.

#include "guest.h"

static capnp::RemotePromise<Session::RestoreResults> restore(Guest& g, kj::ArrayPtr<const kj::byte> secret) {
  return call(g.session.restoreRequest(), [&](auto& p) { p.setSecret(secret); });
}

static capnp::RemotePromise<Session::ShareResults> share(Guest& g, Dir::Client dir) {
  return call(g.session.shareRequest(), [&](auto& p) { p.initRef().setDir(dir); });
}

static capnp::RemotePromise<Session::ShareResults> share(Guest& g, File::Client file) {
  return call(g.session.shareRequest(), [&](auto& p) { p.initRef().setFile(file); });
}

// Another connection restores what this one shares, until it is taken back.
SCENARIO(session) {
  kj::byte guess[33] = {};
  refused(guest, "denied", restore(guest, kj::arrayPtr(guess, 32)));
  refused(guest, "denied", restore(guest, kj::arrayPtr(guess, 33)));
  refused(guest, "denied", restore(guest, nullptr));

  // The capability to be shared is still a promise when it is passed.
  auto narrow = call(subDir(guest.dir, "docs").readOnlyRequest()).getDir();
  auto shared = guest(share(guest, narrow));
  KJ_ASSERT(shared.getSecret().size() == 32);
  Guest other(guest.world, shared.getSecret());
  say("shared", readText(other, openFile(other.dir, "b.md")));
  refused(other, "readOnly", put(other.dir, "b.md", "changed"));
  refused(other, "invalid", share(other, guest.dir));  // of another connection: not the host's, but other's own
  guest(call(shared.getRevoker().revokeRequest()));
  guest(call(shared.getRevoker().revokeRequest()));
  refused(other, "revoked", call(other.dir.statRequest()));
  refused(other, "revoked", restore(other, shared.getSecret()));
  say("still", readText(guest, openFile(narrow, "b.md")));

  // Dropping the revoker takes nothing back.
  auto secret = kj::heapArray(guest(share(guest, openFile(guest.dir, "a.md"))).getSecret());
  Guest reader(guest.world, secret);
  say("file", readText(reader, reader.file));
}

// Shares have terms, are listed, and can be taken back without their revokers.
SCENARIO(shares) {
  auto list = [&](Dir::Client dir, kj::StringPtr after) {
    return call(guest.session.sharesRequest(), [&](auto& p) { p.initRef().setDir(dir); p.setAfter(after); });
  };
  auto revoke = [&](Dir::Client dir, kj::StringPtr id) {
    return call(guest.session.revokeShareRequest(), [&](auto& p) { p.initRef().setDir(dir); p.setId(id); });
  };
  auto docs = subDir(guest.dir, "docs");
  auto made = guest(call(guest.session.shareRequest(), [&](auto& p) {
    p.initRef().setDir(docs);
    auto terms = p.initTerms();
    terms.setUses(1);
    terms.setExpiresInMs(3600000);
    terms.setStoredBytes(1);
  }));
  auto id = kj::str(made.getId());
  guest(share(guest, openFile(guest.dir, "a.md")));
  Guest other(guest.world, made.getSecret());
  refused(other, "quota", put(other.dir, "b.md", "more than there was"));
  refused(other, "expired", restore(other, made.getSecret()));
  auto all = guest(list(guest.dir, ""));
  for (auto s : all.getShares()) {
    say("share", s.getPath(), s.getRights().size(), s.getUsesLeft(), s.getStoredBytes(), s.getExpiresMs() > 0);
  }
  KJ_ASSERT(!all.getMore() && all.getShares()[0].getId() == id);
  say("after the first", guest(list(guest.dir, id)).getShares().size());
  say("of docs", guest(list(docs, "")).getShares().size());
  refused(guest, "notFound", revoke(docs, all.getShares()[1].getId()));
  refused(guest, "notFound", list(docs, all.getShares()[1].getId()));
  guest(revoke(guest.dir, id));
  refused(other, "revoked", call(other.dir.statRequest()));
  say("left", guest(list(guest.dir, "")).getShares().size());
}

// An explanation says what a call would answer.
SCENARIO(explain) {
  auto explain = [&](Right right, kj::StringPtr path, kj::StringPtr to) {
    auto got = guest(call(guest.dir.explainRequest(), [&](auto& p) { p.setRight(right); p.setPath(path); p.setTo(to); }));
    say(got.getAllowed() ? "yes" : "no", got.getAsks(), got.getReasons().size() > 0);
  };
  explain(Right::WRITE, "new", "");
  explain(Right::READ, "docs", "");
  explain(Right::MOVE, "a.md", "moved");
  refused(guest, "notFound", call(openFile(guest.dir, "new").readTextRequest()));
  refused(guest, "invalid", call(guest.dir.explainRequest(), [&](auto& p) { p.setRight(Right::WATCH); p.setPath("a.md"); }));
}

// helps asks an interface for help about itself and each of its methods.
template <typename Interface>
static void helps(Guest& g, typename Interface::Client c) {
  auto ask = [&](kj::StringPtr method) {
    return call(c.helpRequest(), [&](auto& p) { p.setMethod(method); });
  };
  auto schema = capnp::Schema::from<Interface>();
  KJ_ASSERT(g(ask("")).getText().size() > 20);
  uint methods = 0;
  for (auto m : schema.getMethods()) {
    auto text = kj::str(g(ask(m.getProto().getName())).getText());
    KJ_ASSERT(text.size() > 20, "no help", m.getProto().getName());
    methods++;
  }
  say("help", schema.getShortDisplayName(), methods);
  refused(g, "notFound", ask("frobnicate"));
}

SCENARIO(help) {
  helps<Session>(guest, guest.session);
  helps<Dir>(guest, guest.dir);
  helps<File>(guest, openFile(guest.dir, "a.md"));
  helps<Writer>(guest, call(guest.dir.stageRequest(), [](auto& p) { p.setPath("new"); }).getWriter());
  helps<Revoker>(guest, call(guest.dir.revocableRequest()).getRevoker());
  auto secret = kj::decodeHex(readText(guest, openFile(guest.dir, "invitation")));
  helps<Petitioner>(guest, call(guest.session.restorePetitionerRequest(), [&](auto& p) { p.setSecret(secret); }).getPetitioner());
}

// What was changed is undone, all of a turn together.
SCENARIO(history) {
  auto history = [&](uint limit) { return call(guest.dir.historyRequest(), [&](auto& p) { p.setLimit(limit); }); };
  auto undo = [&](auto what, bool dry) {
    return call(guest.dir.undoRequest(), [&](auto& p) {
      what(p.initWhat());
      p.setDryRun(dry);
    });
  };
  guest(put(guest.dir, "a.md", "one"));
  guest(put(guest.dir, "a.md", "two"));
  auto page = guest(history(1));
  auto change = page.getEntries()[0].getChanges()[0];
  say("history", change.getOp(), change.getPath(), "more", page.getMore());
  auto all = guest(history(0));
  auto first = all.getEntries()[all.getEntries().size() - 1].getChanges()[0];
  auto past = guest(call(guest.dir.readPastRequest(), [&](auto& p) {
    p.setPath("a.md");
    p.setVersion(first.getBefore());
    p.setLength(1000);
  }));
  say("past", past.getData().asChars(), past.getEof(), past.getSizeBytes());
  auto last = [](uint n) { return [n](Undoing::Builder w) { w.setLast(n); }; };
  say("steps", guest(undo(last(2), true)).getSteps().size());
  auto done = guest(undo(last(2), false));
  say("undone", done.getSteps()[0].getOp(), done.getSteps().size());
  auto id = done.getId();
  say("again", guest(undo([&](Undoing::Builder w) { w.setId(id); }, false)).getEntries().size() + 1);
  auto turn = call(guest.dir.turnRequest(), [](auto& p) { p.setName("t"); }).getDir();
  guest(put(turn, "a.md", "four"));
  say("turn", guest(history(1)).getEntries()[0].getTurn());
  guest(undo([](Undoing::Builder w) { w.setTurn("t"); }, false));
  guest(put(guest.dir, "a.md", "three"));
  refused(guest, "notFound", undo([](Undoing::Builder w) { w.setTurn("none"); }, false));
  refused(guest, "invalid", undo([](Undoing::Builder w) { w.setId(0); }, false));
  refused(guest, "notFound", call(guest.dir.readPastRequest(), [&](auto& p) {
    p.setPath("none");
    p.setVersion(first.getBefore());
  }));
}
