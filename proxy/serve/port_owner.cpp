#include "proxy/serve/port_owner.hpp"

#include <arpa/inet.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <sstream>

namespace weir::proxy::serve {
namespace {

namespace fs = std::filesystem;

/// Writes an address as the tables do: each four bytes as one hexadecimal number in the machine's own byte order.
std::string in_table(const std::string& host) {
  std::array<std::uint32_t, 4> words{};
  const bool ipv6 = host.find(':') != std::string::npos;
  if (::inet_pton(ipv6 ? AF_INET6 : AF_INET, host.c_str(), words.data()) != 1) return "";
  std::string text;
  for (std::size_t i = 0; i < (ipv6 ? words.size() : 1); ++i) {
    std::array<char, 9> word{};
    std::snprintf(word.data(), word.size(), "%08X", words[i]);
    text += word.data();
  }
  return text;
}

bool takes_all(std::string_view address) { return address.find_first_not_of('0') == address.npos; }

/// Returns the address that ::ffff:a.b.c.d stands for.
std::string_view without_mapping(std::string_view address) {
  static const std::string prefix = in_table("::ffff:0.0.0.0").substr(0, 24);
  return address.size() == 32 && address.starts_with(prefix) ? address.substr(24) : address;
}

std::string text_of(const fs::path& file) {
  std::ifstream in(file);
  return {std::istreambuf_iterator<char>(in), {}};
}

/// Returns the process that holds the socket, if this user may see its descriptors.
std::string holder_of(std::uint64_t inode) {
  const auto socket = "socket:[" + std::to_string(inode) + "]";
  std::error_code ec;
  for (fs::directory_iterator process("/proc", ec), end; !ec && process != end; process.increment(ec)) {
    const auto id = process->path().filename().string();
    if (id.find_first_not_of("0123456789") != id.npos) continue;
    std::error_code none;
    for (fs::directory_iterator fd(process->path() / "fd", none); !none && fd != end; fd.increment(none)) {
      std::error_code unreadable;
      if (fs::read_symlink(fd->path(), unreadable) != socket) continue;
      auto name = text_of(process->path() / "comm");
      if (name.ends_with('\n')) name.pop_back();
      return "'" + name + "' (process " + id + ")";
    }
  }
  return "";
}

}  // namespace

std::optional<ListeningSocket> find_listening(std::string_view table, const config::ListenAddress& address) {
  constexpr std::string_view listening = "0A";
  const auto wanted = in_table(address.host);
  std::istringstream lines{std::string(table)};
  for (std::string line; std::getline(lines, line);) {
    std::istringstream fields(line);
    std::string number, local, remote, state, queues, timer, retransmits, timeout;
    ListeningSocket socket;
    if (!(fields >> number >> local >> remote >> state >> queues >> timer >> retransmits >> socket.user >> timeout >>
          socket.inode))
      continue;
    const auto colon = local.find(':');
    if (state != listening || colon == local.npos) continue;
    if (std::stoul(local.substr(colon + 1), nullptr, 16) != address.port) continue;
    const auto there = without_mapping(std::string_view(local).substr(0, colon));
    if (there == wanted || takes_all(there) || takes_all(wanted)) return socket;
  }
  return std::nullopt;
}

std::string port_owner(const config::ListenAddress& address) {
  for (const auto* table : {"/proc/net/tcp", "/proc/net/tcp6"}) {
    const auto socket = find_listening(text_of(table), address);
    if (!socket) continue;
    auto holder = holder_of(socket->inode);
    return holder.empty() ? "a process of user " + std::to_string(socket->user) : holder;
  }
  return "";
}

std::optional<std::uint64_t> find_listening_at(std::string_view table, std::string_view path) {
  constexpr unsigned accepts_connections = 0x10000;  // __SO_ACCEPTCON in the kernel's linux/net.h
  std::istringstream lines{std::string(table)};
  std::string line;
  std::getline(lines, line);  // The first line names the columns.
  while (std::getline(lines, line)) {
    std::istringstream fields(line);
    std::string number, references, protocol, flags, type, state, bound;
    std::uint64_t inode = 0;
    if (!(fields >> number >> references >> protocol >> flags >> type >> state >> inode)) continue;
    std::getline(fields >> std::ws, bound);
    if (bound == path && (std::stoul(flags, nullptr, 16) & accepts_connections) != 0) return inode;
  }
  return std::nullopt;
}

std::string socket_owner(std::string_view path) {
  const auto inode = find_listening_at(text_of("/proc/net/unix"), path);
  return inode ? holder_of(*inode) : "";
}

}  // namespace weir::proxy::serve
