// Asking for what one does not hold: no answer is a union, so that calls can be made on each before it has arrived.

#include "guest.h"

static capnp::RemotePromise<Petitioner::RequestDirResults> request(Petitioner::Client petitioner, kj::StringPtr root, Right access, kj::StringPtr reason) {
  return call(petitioner.requestDirRequest(), [&](auto& p) {
    p.setRoot(root);
    p.initAccess(1).set(0, access);
    p.setReason(reason);
  });
}

SCENARIO(petitioner) {
  auto secret = kj::decodeHex(readText(guest, openFile(guest.dir, "invitation")));
  Guest stranger(guest.world, nullptr);
  auto petitioner = call(stranger.session.restorePetitionerRequest(), [&](auto& p) { p.setSecret(secret); }).getPetitioner();
  refused(stranger, "invalid", call(stranger.session.restoreDirRequest(), [&](auto& p) { p.setSecret(secret); }));

  auto all = stranger(call(petitioner.rootsRequest()));
  auto offer = all.getRoots()[0];
  say("offer", offer.getId(), offer.getKind(), offer.getRights().size(), offer.getGranted().size());

  // Three calls in a row, on what nobody has decided about yet.
  auto text = call(openFile(subDir(request(petitioner, "project/petitioner", Right::READ, "to read\nit").getDir(), "docs"), "b.md").readTextRequest());
  say("asked", "once");
  say("read", stranger(kj::mv(text)).getText());

  auto change = put(request(petitioner, "project/petitioner", Right::WRITE, "").getDir(), "a.md", "changed");
  say("asked", "deny");
  refused(stranger, "denied", change);

  auto file = call(petitioner.requestFileRequest(), [&](auto& p) {
    p.setRoot("project/petitioner/a.md");
    p.initAccess(2).set(0, Right::READ);
    p.getAccess().set(1, Right::WRITE);
  }).getFile();
  auto rights = call(file.rightsRequest());
  say("asked", "less");
  auto has = stranger(kj::mv(rights));
  KJ_ASSERT(has.getRights().size() == 1 && has.getRights()[0] == Right::READ);
  say("file", readText(stranger, file));
  refused(stranger, "notFound", request(petitioner, "elsewhere", Right::READ, ""));
}
