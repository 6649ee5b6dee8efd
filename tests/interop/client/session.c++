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
}
