#include "tree.h"

// Directory serves a Dir. It has no glob and no help, which the library answers as unimplemented.
class Directory final : public Dir::Server, public Served {
 public:
  explicit Directory(Served s) : Served(kj::mv(s)) {}

  kj::Promise<void> list(ListContext c) override {
    lease->look();
    auto params = c.getParams();
    auto limit = params.getLimit() == 0 ? 1000 : params.getLimit();
    auto at = params.getAfter().size() == 0 ? node->entries.begin() : node->entries.upper_bound(string(params.getAfter()));
    std::vector<std::pair<std::string, InodePtr>> page;
    for (; at != node->entries.end() && page.size() < limit; ++at) page.push_back(*at);
    auto entries = c.getResults().initEntries(page.size());
    for (size_t i = 0; i < page.size(); i++) describe(entries[i], page[i].first.c_str(), *page[i].second);
    c.getResults().setMore(at != node->entries.end());
    return kj::READY_NOW;
  }

  kj::Promise<void> get(GetContext c) override {
    lease->look();
    answer(c.getResults().initNode(), c.getParams().getName(), ::walk(node, c.getParams().getName(), false));
    return kj::READY_NOW;
  }

  kj::Promise<void> walk(WalkContext c) override {
    lease->look();
    answer(c.getResults().initNode(), c.getParams().getPath(), ::walk(node, c.getParams().getPath(), !c.getParams().getNoFollow()));
    return kj::READY_NOW;
  }

  kj::Promise<void> openDir(OpenDirContext c) override {
    c.getResults().setDir(directory(c.getParams().getPath()));
    return kj::READY_NOW;
  }

  kj::Promise<void> subDir(SubDirContext c) override {
    c.getResults().setDir(directory(c.getParams().getPath()));
    return kj::READY_NOW;
  }

  kj::Promise<void> openFile(OpenFileContext c) override {
    lease->look();
    auto path = c.getParams().getPath();
    auto found = ::walk(node, path);
    if (found->type != Type::FILE) fail("isDir", path, "this is a directory");
    auto answer = [this, c, found]() mutable { c.getResults().setFile(store.file(found, below(lease))); };
    if (path == "slow") return store.gone.addBranch().then(kj::mv(answer));
    answer();
    return kj::READY_NOW;
  }

  kj::Promise<void> put(PutContext c) override {
    auto params = c.getParams();
    auto version = replace(params.getPath(), params.getIfVersion(), string(params.getData()));
    c.getResults().setVersion(bytes(version));
    if (params.getPath() == "go") store.go->fulfill();
    return kj::READY_NOW;
  }

  kj::Promise<void> stage(StageContext c) override {
    lease->change();
    auto params = c.getParams();
    std::string path = params.getPath().cStr();
    auto self = thisCap();
    c.getResults().setWriter(store.writer(lease, [this, self, path](std::string content) {
      capnp::MallocMessageBuilder none;
      return replace(path.c_str(), none.getRoot<IfVersion>(), kj::mv(content));
    }));
    return kj::READY_NOW;
  }

  kj::Promise<void> stat(StatContext c) override {
    lease->look();
    describe(c.getResults().initStat(), "", *node);
    return kj::READY_NOW;
  }

  kj::Promise<void> createDir(CreateDirContext c) override {
    c.getResults().setDir(store.dir(create(c.getParams().getPath(), Type::DIRECTORY), below(lease)));
    return kj::READY_NOW;
  }

  kj::Promise<void> createFile(CreateFileContext c) override {
    c.getResults().setFile(store.file(create(c.getParams().getPath(), Type::FILE), below(lease)));
    return kj::READY_NOW;
  }

  kj::Promise<void> remove(RemoveContext c) override {
    lease->change();
    auto path = c.getParams().getPath();
    auto at = place(node, path);
    auto there = at.there();
    if (there == nullptr) fail("notFound", path, "nothing has this name");
    check(c.getParams().getIfVersion(), path, there);
    if (!there->entries.empty()) fail("notEmpty", path, "it holds something");
    at.dir->entries.erase(at.name);
    return kj::READY_NOW;
  }

  kj::Promise<void> move(MoveContext c) override {
    lease->change();
    if (!c.getParams().hasDst()) {
      moveTo(c.getParams(), *this);
      return kj::READY_NOW;
    }
    auto to = c.getParams().getDst();
    return store.dirs.getLocalServer(to).then([this, c](kj::Maybe<Dir::Server&> dst) mutable {
      KJ_IF_MAYBE(d, dst) {
        moveTo(c.getParams(), kj::downcast<Directory>(*d));
      } else {
        fail("unsupported", c.getParams().getNewPath(), "this host does not serve the target");
      }
    });
  }

  kj::Promise<void> readOnly(ReadOnlyContext c) override {
    c.getResults().setDir(store.dir(node, below(lease, true)));
    return kj::READY_NOW;
  }

  kj::Promise<void> revocable(RevocableContext c) override {
    auto lent = below(lease);
    c.getResults().setDir(store.dir(node, lent));
    c.getResults().setRevoker(store.revoker(lent));
    return kj::READY_NOW;
  }

 private:
  void answer(Node::Builder to, kj::StringPtr path, InodePtr found) {
    std::string name = path.cStr();
    describe(to.initStat(), name.substr(name.rfind('/') + 1).c_str(), *found);
    switch (found->type) {
      case Type::DIRECTORY: to.setDir(store.dir(found, below(lease))); break;
      case Type::FILE: to.setFile(store.file(found, below(lease))); break;
      default: to.initLink().setTarget(found->content);
    }
  }

  Dir::Client directory(kj::StringPtr path) {
    lease->look();
    auto found = ::walk(node, path);
    if (found->type != Type::DIRECTORY) fail("notDir", path, "this is a file");
    return store.dir(found, below(lease));
  }

  InodePtr create(kj::StringPtr path, Type type) {
    lease->change();
    auto at = place(node, path);
    if (at.there() != nullptr) fail("exists", path, "something has this name");
    return at.dir->entries[at.name] = make(type);
  }

  std::string replace(kj::StringPtr path, IfVersion::Reader condition, std::string content) {
    lease->change();
    auto at = place(node, path);
    auto there = at.there();
    check(condition, path, there);
    if (there == nullptr) there = at.dir->entries[at.name] = make(Type::FILE);
    if (there->type == Type::DIRECTORY) fail("isDir", path, "this is a directory");
    there->content = kj::mv(content);
    return versionOf(there->content);
  }

  void moveTo(MoveParams::Reader params, Directory& dst) {
    dst.lease->change();
    auto from = place(node, params.getPath()), to = place(dst.node, params.getNewPath());
    auto there = from.there();
    if (there == nullptr) fail("notFound", params.getPath(), "nothing has this name");
    if (to.there() != nullptr && !params.getIfTarget().isEquals()) fail("exists", params.getNewPath(), "something has this name");
    check(params.getIfTarget(), params.getNewPath(), to.there());
    to.dir->entries[to.name] = there;
    from.dir->entries.erase(from.name);
  }
};

Dir::Client Tree::dir(InodePtr node, LeasePtr lease) { return dirs.add(kj::heap<Directory>(Served{*this, node, lease})); }
