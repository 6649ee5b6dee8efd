// A small tree in memory, and the capabilities of capd's schema that serve it: what the parts of the server share.

#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include <capnp/rpc-twoparty.h>
#include <kj/async-io.h>
#include <kj/debug.h>
#include <kj/function.h>

#include "guest.capnp.h"

using namespace capd;

// fail ends a call as capd does: the code is the text's first word, and says the exception's type.
[[noreturn]] void fail(kj::StringPtr code, kj::StringPtr path, kj::StringPtr text);

struct Inode {
  Type type;
  std::string content;  // of a file; of a link, where it leads
  std::map<std::string, std::shared_ptr<Inode>> entries;
  bool executable = false;
};
using InodePtr = std::shared_ptr<Inode>;

inline InodePtr make(Type type, std::string content = "") { return std::make_shared<Inode>(Inode{type, kj::mv(content), {}, false}); }

// Lease is what a capability may do. What is derived from it has no more.
struct Lease {
  std::shared_ptr<Lease> above;
  bool readOnly = false;
  bool revoked = false;

  void look() const;    // refuses what was taken back
  void change() const;  // refuses what is read-only, too
};
using LeasePtr = std::shared_ptr<Lease>;

inline LeasePtr below(LeasePtr above, bool readOnly = false) {
  above->look();
  return std::make_shared<Lease>(Lease{above, readOnly});
}

// Tree is what is served, and the table of what serves it.
class Tree {
 public:
  explicit Tree(kj::AsyncIoContext& io);

  Dir::Client dir(InodePtr node, LeasePtr lease);
  File::Client file(InodePtr node, LeasePtr lease);
  Revoker::Client revoker(LeasePtr lease);
  Writer::Client writer(LeasePtr lease, kj::Function<std::string(std::string)> commit);
  void set(Ref::Builder ref, InodePtr node, LeasePtr lease);

  kj::Timer& timer;
  InodePtr root;
  // Calls on what is called "slow" are answered after something called "go" was put, and "never" is never read.
  kj::ForkedPromise<void> gone;
  kj::Own<kj::PromiseFulfiller<void>> go;
  capnp::CapabilityServerSet<Dir> dirs;
  capnp::CapabilityServerSet<File> files;
};

// Served is what a capability stands for.
struct Served {
  Tree& store;
  InodePtr node;
  LeasePtr lease;
};

// walk follows a path from node, and the links on it.
InodePtr walk(InodePtr node, kj::StringPtr path, bool followLast = true);

// Place is where a name is, or would be.
struct Place {
  InodePtr dir;
  std::string name;
  InodePtr there() const;
};
Place place(InodePtr node, kj::StringPtr path);

std::string versionOf(const std::string& content);
void check(IfVersion::Reader condition, kj::StringPtr path, const InodePtr& there);
void describe(Stat::Builder stat, kj::StringPtr name, const Inode& node);

inline kj::ArrayPtr<const kj::byte> bytes(const std::string& s) { return kj::StringPtr(s.c_str(), s.size()).asBytes(); }
inline std::string string(kj::ArrayPtr<const kj::byte> d) { return {reinterpret_cast<const char*>(d.begin()), d.size()}; }

// say prints one line, at once.
void say(kj::StringPtr line);
