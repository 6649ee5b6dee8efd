#include "tree.h"

#include <vector>

void fail(kj::StringPtr code, kj::StringPtr path, kj::StringPtr text) {
  auto type = kj::Exception::Type::FAILED;
  if (code == "revoked") type = kj::Exception::Type::DISCONNECTED;
  if (code == "busy") type = kj::Exception::Type::OVERLOADED;
  if (code == "unsupported") type = kj::Exception::Type::UNIMPLEMENTED;
  kj::throwFatalException(kj::Exception(type, __FILE__, __LINE__, kj::str("capd: ", code, ": ", path, ": ", text)));
}

void Lease::look() const {
  for (auto r = this; r != nullptr; r = r->above.get()) {
    if (r->revoked) fail("revoked", "", "this was taken back");
  }
}

void Lease::change() const {
  look();
  for (auto r = this; r != nullptr; r = r->above.get()) {
    if (r->readOnly) fail("readOnly", "", "this is for reading");
  }
}

static std::vector<std::string> split(kj::StringPtr path) {
  std::vector<std::string> names;
  std::string rest = path.cStr();
  if (rest.empty()) return names;
  for (size_t at = 0; at != std::string::npos;) {
    size_t end = rest.find('/', at);
    auto name = rest.substr(at, end == std::string::npos ? end : end - at);
    if (name.empty() || name == "." || name == "..") fail("invalid", path, "this is no path");
    names.push_back(name);
    at = end == std::string::npos ? end : end + 1;
  }
  return names;
}

static InodePtr step(const InodePtr& dir, const std::string& name, kj::StringPtr path) {
  if (dir->type != Type::DIRECTORY) fail("notDir", path, "this is not a directory");
  auto found = dir->entries.find(name);
  if (found == dir->entries.end()) fail("notFound", path, "nothing has this name");
  return found->second;
}

// walkFrom follows names; links lead to names beside them, and no further up.
static InodePtr walkFrom(InodePtr node, const std::vector<std::string>& names, kj::StringPtr path, bool followLast, int links) {
  for (size_t i = 0; i < names.size(); i++) {
    auto next = step(node, names[i], path);
    if (next->type == Type::SYMLINK && (followLast || i + 1 < names.size())) {
      if (links == 40) fail("limit", path, "too many links");
      if (next->content.compare(0, 2, "..") == 0) fail("outside", path, "this leads out");
      next = walkFrom(node, split(next->content.c_str()), path, true, links + 1);
    }
    node = next;
  }
  return node;
}

InodePtr walk(InodePtr node, kj::StringPtr path, bool followLast) { return walkFrom(node, split(path), path, followLast, 0); }

Place place(InodePtr node, kj::StringPtr path) {
  auto names = split(path);
  if (names.empty()) fail("invalid", path, "this is no name");
  auto name = names.back();
  names.pop_back();
  auto dir = walkFrom(node, names, path, true, 0);
  if (dir->type != Type::DIRECTORY) fail("notDir", path, "this is not a directory");
  return {dir, name};
}

InodePtr Place::there() const {
  auto found = dir->entries.find(name);
  return found == dir->entries.end() ? nullptr : found->second;
}

// versionOf is a digest of 32 bytes: all that a client may know of a version is that it differs where contents do.
std::string versionOf(const std::string& content) {
  std::string version;
  for (uint64_t seed = 1; seed <= 4; seed++) {
    uint64_t sum = 14695981039346656037u * seed;
    for (unsigned char c : content) sum = (sum ^ c) * 1099511628211u;
    version.append(reinterpret_cast<char*>(&sum), sizeof(sum));
  }
  return version;
}

void check(IfVersion::Reader condition, kj::StringPtr path, const InodePtr& there) {
  bool holds = true;
  switch (condition.which()) {
    case IfVersion::ANY: break;
    case IfVersion::ABSENT: holds = there == nullptr; break;
    case IfVersion::EQUALS: holds = there != nullptr && versionOf(there->content) == string(condition.getEquals()); break;
  }
  if (!holds) fail("conflict", path, "it is not as you say");
}

void describe(Stat::Builder stat, kj::StringPtr name, const Inode& node) {
  stat.setName(name);
  stat.setType(node.type);
  if (node.type == Type::FILE) stat.setSizeBytes(node.content.size());
  stat.setModifiedMs(1);
  stat.setExecutable(node.executable);
}
