#include <random>

#include <kj/encoding.h>

#include "tree.h"

void say(kj::StringPtr line) {
  fprintf(stdout, "%s\n", line.cStr());
  fflush(stdout);
}

class Taker final : public Revoker::Server {
 public:
  explicit Taker(LeasePtr lease) : lease(kj::mv(lease)) {}
  kj::Promise<void> revoke(RevokeContext) override {
    lease->revoked = true;
    return kj::READY_NOW;
  }

 private:
  LeasePtr lease;
};

Revoker::Client Tree::revoker(LeasePtr lease) { return kj::heap<Taker>(kj::mv(lease)); }

void Tree::set(Ref::Builder ref, InodePtr node, LeasePtr lease) {
  if (node->type == Type::DIRECTORY) {
    ref.setDir(dir(node, lease));
  } else {
    ref.setFile(file(node, lease));
  }
}

Tree::Tree(kj::AsyncIoContext& io) : timer(io.provider->getTimer()), root(make(Type::DIRECTORY)), gone(nullptr) {
  auto signal = kj::newPromiseAndFulfiller<void>();
  gone = signal.promise.fork();
  go = kj::mv(signal.fulfiller);
  auto& top = root->entries;
  top["a.md"] = make(Type::FILE, "hello");
  top["docs"] = make(Type::DIRECTORY);
  top["docs"]->entries["b.md"] = make(Type::FILE, "of docs");
  top["docs"]->entries["deep"] = make(Type::DIRECTORY);
  top["docs"]->entries["deep"]->entries["c.md"] = make(Type::FILE, "deep");
  top["link"] = make(Type::SYMLINK, "docs/b.md");
  top["out"] = make(Type::SYMLINK, "../x");
  top["loop"] = make(Type::SYMLINK, "loop");
  top["slow"] = make(Type::FILE);
  top["never"] = make(Type::FILE, "never");
  top["many"] = make(Type::DIRECTORY);
  for (uint i = 0; i < 2500; i++) top["many"]->entries[kj::str("f", i).cStr()] = make(Type::FILE);
}

// Front is the Session of every connection.
class Front final : public Session::Server {
 public:
  Front(kj::AsyncIoContext& io, kj::ArrayPtr<const kj::byte> secret) : store(io) {
    locators.emplace(string(secret), Served{store, store.root, std::make_shared<Lease>()});
  }

  kj::Promise<void> restore(RestoreContext c) override {
    auto& s = find(c.getParams().getSecret());
    store.set(c.getResults().initRef(), s.node, below(s.lease));
    return kj::READY_NOW;
  }

  kj::Promise<void> restoreDir(RestoreDirContext c) override {
    auto& s = find(c.getParams().getSecret());
    if (s.node->type != Type::DIRECTORY) fail("notDir", "", "this is a file");
    c.getResults().setDir(store.dir(s.node, below(s.lease)));
    return kj::READY_NOW;
  }

  kj::Promise<void> restoreFile(RestoreFileContext c) override {
    auto& s = find(c.getParams().getSecret());
    if (s.node->type != Type::FILE) fail("isDir", "", "this is a directory");
    c.getResults().setFile(store.file(s.node, below(s.lease)));
    return kj::READY_NOW;
  }

  kj::Promise<void> share(ShareContext c) override {
    auto ref = c.getParams().getRef();
    if (ref.isDir()) {
      auto dir = ref.getDir();
      return store.dirs.getLocalServer(dir).then([this, c](kj::Maybe<Dir::Server&> s) mutable { mint(c, s); });
    }
    auto file = ref.getFile();
    return store.files.getLocalServer(file).then([this, c](kj::Maybe<File::Server&> s) mutable { mint(c, s); });
  }

 private:
  Served& find(capnp::Data::Reader secret) {
    auto found = locators.find(string(secret));
    if (found == locators.end()) fail("denied", "", "this is not a secret of this host's");
    found->second.lease->look();
    return found->second;
  }

  template <typename Server>
  void mint(ShareContext c, kj::Maybe<Server&> server) {
    KJ_IF_MAYBE(s, server) {
      auto& served = dynamic_cast<Served&>(*s);
      auto shared = below(served.lease);
      std::string secret;
      for (std::random_device random; secret.size() < 32;) secret += static_cast<char>(random());
      locators.emplace(secret, Served{store, served.node, shared});
      c.getResults().setSecret(bytes(secret));
      c.getResults().setRevoker(store.revoker(shared));
    } else {
      fail("invalid", "", "share takes a Dir or a File of this host");
    }
  }

  Tree store;
  std::map<std::string, Served> locators;
};

// server SOCKET SECRET: the secret in hexadecimal.
int main(int argc, char** argv) {
  if (argc != 3) {
    fprintf(stderr, "usage: server SOCKET SECRET\n");
    return 2;
  }
  auto io = kj::setupAsyncIo();
  auto socket = io.provider->getNetwork().parseAddress(kj::str("unix:", argv[1])).wait(io.waitScope)->listen();
  say("listening");
  capnp::TwoPartyServer server(kj::heap<Front>(io, kj::decodeHex(kj::StringPtr(argv[2]))));
  server.listen(*socket).wait(io.waitScope);
}
