#include "proxy/serve/listeners.hpp"

#include <fcntl.h>
#include <spdlog/spdlog.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <boost/asio/post.hpp>
#include <cerrno>
#include <cstring>
#include <exception>
#include <filesystem>
#include <optional>
#include <span>
#include <stdexcept>
#include <system_error>
#include <utility>

#include "config/address.hpp"
#include "proxy/net/address.hpp"

namespace weir::proxy::serve {

Listeners::Listeners(boost::asio::io_context& context, std::vector<InheritedSocket> inherited, Accepted accepted)
    : context_(context), inherited_(std::move(inherited)), accepted_(std::move(accepted)) {}

Listeners::~Listeners() {
  for (const auto& one : open_) one.listener->close(true);
}

void Listeners::refuse_unnamed(const config::Settings& settings) const {
  for (const auto& one : inherited_) {
    if (std::ranges::find(settings.server.listen, one.address) != settings.server.listen.end()) continue;
    throw std::runtime_error("LISTEN_FDS: the socket at " + config::to_text(one.address) +
                             " is no address of server.listen; let the .socket unit and the settings name the same");
  }
}

Listeners::Open Listeners::open(Audience audience, const std::string& key, const config::ListenAddress& address) {
  const auto accepted = [this, audience](net::UniqueFd client) { accepted_(audience, std::move(client)); };
  const auto take = [&](net::UniqueFd socket, bool inherited, std::shared_ptr<SocketFile> file = nullptr) {
    return Open{audience, address, inherited,
                std::make_shared<Listener>(context_, std::move(socket), accepted, std::move(file))};
  };
  if (audience == Audience::clients)
    for (const auto& one : inherited_)
      if (one.address == address) return take(net::UniqueFd(::fcntl(one.fd.get(), F_DUPFD_CLOEXEC, 0)), true);
  for (const auto& one : open_) {
    const bool found_again = address.port != 0 || !address.unix_path.empty();
    if (one.address == address && found_again)
      return take(one.listener->duplicate(), one.inherited, one.listener->file());
    if (config::overlap(one.address, address))
      throw std::runtime_error(key + ": cannot listen on " + config::to_text(address) + " while weir listens on " +
                               config::to_text(one.address) +
                               "; restart weir, or move to another port first and from there in a second reload");
  }
  return {audience, address, false, std::make_shared<Listener>(context_, key, address, accepted)};
}

Listeners::Set Listeners::prepare(const config::Settings& settings) {
  refuse_unnamed(settings);
  Set wanted;
  std::vector<bool> taken(open_.size());
  const auto want = [&](Audience audience, const std::string& key, const config::ListenAddress& address) {
    for (std::size_t i = 0; i < open_.size(); ++i) {
      if (taken[i] || open_[i].audience != audience || open_[i].address != address) continue;
      taken[i] = true;
      return wanted.push_back(open_[i]);
    }
    wanted.push_back(open(audience, key, address));
  };
  for (const auto& address : settings.server.listen) want(Audience::clients, "server.listen", address);
  if (settings.metrics.listen) want(Audience::metrics, "metrics.listen", *settings.metrics.listen);
  if (settings.admin.listen) want(Audience::admin, "admin.listen", *settings.admin.listen);
  return wanted;
}

void Listeners::commit(Set wanted) {
  for (auto& one : wanted)
    if (!std::exchange(one.started, true)) one.listener->start();
  const auto before = std::exchange(open_, std::move(wanted));
  for (const auto& old : before) {
    const auto is_it = [&old](const Open& one) { return one.listener == old.listener; };
    const auto same_socket = [&old](const Open& one) { return one.address == old.address; };
    if (std::ranges::none_of(open_, is_it))
      old.listener->close(old.inherited || std::ranges::any_of(open_, same_socket));
  }
}

void Listeners::close_clients_if(const std::function<bool(const Open&)>& wanted) {
  const auto closed = [&](const Open& one) {
    if (one.audience != Audience::clients || !wanted(one)) return false;
    one.listener->close(one.inherited);
    return true;
  };
  std::erase_if(open_, closed);
}

void Listeners::close_inherited() {
  close_clients_if([](const Open& one) { return one.inherited; });
}

void Listeners::close_clients() {
  close_clients_if([](const Open&) { return true; });
}

bool Listeners::accepts_clients() const {
  return std::ranges::any_of(open_, [](const Open& one) { return one.audience == Audience::clients; });
}

namespace {

constexpr int backlog = 4096;

/// True if nobody waits any more: another process that has the socket took the client, or the client left.
bool is_gone(int error) { return error == EAGAIN || error == EINTR || error == ECONNABORTED || error == EPROTO; }

/// Says why weir cannot listen there, and what to do.
std::string reason(const boost::system::error_code& error, const std::string& key) {
  // A connection that goes out from the port, or waits there in TIME-WAIT, takes it as well as a listener does.
  if (error == boost::asio::error::address_in_use)
    return "the port is taken by another program (`ss -tanp`, as root, says which); end it, or give " + key +
           " another port";
  if (error == boost::asio::error::access_denied)
    return "this user may not listen on ports below 1024; give " + key +
           " a higher port, or weir the capability CAP_NET_BIND_SERVICE";
  if (error.value() == EADDRNOTAVAIL)
    return "this machine has no such address; give " + key + " one of its own (`ip address` lists them), or 0.0.0.0";
  return error.message();
}

}  // namespace

Listener::Listener(boost::asio::io_context& context, const std::string& key, const config::ListenAddress& address,
                   Accepted accepted)
    : acceptor_(context), backoff_(context), accepted_(std::move(accepted)) {
  try {
    const auto endpoint = net::listen_endpoint(address);
    acceptor_.open(endpoint.protocol());
    if (address.unix_path.empty()) {
      acceptor_.set_option(boost::asio::socket_base::reuse_address(true));
      acceptor_.bind(endpoint);
      acceptor_.listen(backlog);
    } else {
      file_ = std::make_shared<SocketFile>(acceptor_.native_handle(), address.unix_path, backlog, key);
    }
    acceptor_.non_blocking(true);
  } catch (const boost::system::system_error& error) {
    throw std::runtime_error(key + ": cannot listen on " + config::to_text(address) + ": " + reason(error.code(), key));
  }
}

Listener::Listener(boost::asio::io_context& context, net::UniqueFd socket, Accepted accepted,
                   std::shared_ptr<SocketFile> file)
    : acceptor_(context), backoff_(context), accepted_(std::move(accepted)), file_(std::move(file)) {
  // Asio asks the protocol for no more than that it is a stream.
  acceptor_.assign(Protocol(AF_UNSPEC, 0), socket.get());
  socket.release();
  acceptor_.non_blocking(true);
}

/// Waits for the next client before this one is handled, which may throw.
void Listener::accept() {
  const auto take = [self = shared_from_this()](boost::system::error_code error) {
    if (!self->acceptor_.is_open()) return;
    net::UniqueFd client;
    if (!error) {
      client = self->take_one();
      if (!client && !is_gone(errno)) error = {errno, boost::system::system_category()};
    }
    if (error) return self->back_off(error);
    self->accept();
    if (client) self->accepted_(std::move(client));
  };
  acceptor_.async_wait(boost::asio::socket_base::wait_read, take);
}

net::UniqueFd Listener::take_one() {
  return net::UniqueFd(::accept4(acceptor_.native_handle(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
}

void Listener::back_off(const boost::system::error_code& error) {
  backoff_.expires_after(std::chrono::milliseconds(50));
  backoff_.async_wait([self = shared_from_this()](boost::system::error_code ended) {
    if (!ended && self->acceptor_.is_open()) self->accept();
  });
  warn(error);
}

/// Without a descriptor nobody is accepted until one is free again; clients wait in the kernel's queue.
void Listener::warn(const boost::system::error_code& error) {
  const auto now = std::chrono::steady_clock::now();
  if (now < warned_) return;
  warned_ = now + std::chrono::minutes(1);
  spdlog::warn(
      "cannot accept a connection: {}; those that wait are tried again every 50 ms (said at most once a minute)",
      error.message());
}

void Listener::close(bool leave_waiting) {
  if (!acceptor_.is_open()) return;
  if (!leave_waiting) take_waiting();
  backoff_.cancel();
  // Asio leaves a closed descriptor to the kernel to forget, but the socket lives on where others hold it. So it is
  // taken from Asio first.
  boost::system::error_code error;
  net::UniqueFd(acceptor_.release(error)).reset();
  file_.reset();
}

/// Closing would reset the connections that wait to be accepted.
void Listener::take_waiting() {
  while (auto client = take_one()) accepted_(std::move(client));
}

net::UniqueFd Listener::duplicate() { return net::UniqueFd(::fcntl(acceptor_.native_handle(), F_DUPFD_CLOEXEC, 0)); }

namespace {

constexpr mode_t owner_and_group = 0660;

sockaddr_un address_of(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path, path.data(), std::min(path.size(), sizeof address.sun_path - 1));
  return address;
}

/// Returns 0 if somebody listens there, or errno.
int try_to_connect(const std::string& path) {
  const net::UniqueFd probe(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!probe) return errno;
  const auto address = address_of(path);
  return ::connect(probe.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0 ? 0 : errno;
}

/// Returns why the path is not free, or "" once it is.
std::string make_free(const std::string& path, const std::string& key) {
  struct stat there{};
  if (::lstat(path.c_str(), &there) != 0) return "";  // Binding tells what else is wrong.
  if (!S_ISSOCK(there.st_mode)) return "there is a file that is no socket; remove it, or give " + key + " another path";
  const int error = try_to_connect(path);
  if (error == ENOENT) return "";
  if (error == ECONNREFUSED) {
    ::unlink(path.c_str());
    return "";
  }
  return "the socket is taken by another program (`ss -xlp`, as root, says which); end it, or give " + key +
         " another path";
}

std::string reason(int error, const std::string& path, const std::string& key) {
  const auto folder = std::filesystem::path(path).parent_path().string();
  if (error == ENOENT)
    return "there is no folder " + folder + "; make it (under systemd RuntimeDirectory= does), or give " + key +
           " a path in another one";
  if (error == EACCES || error == EPERM || error == EROFS)
    return "this user may not write into " + folder + "; let it, or give " + key + " a path in another folder";
  return std::error_code(error, std::generic_category()).message();
}

}  // namespace

SocketFile::SocketFile(int socket, const std::string& path, int backlog, const std::string& key) : path_(path) {
  const auto fail = [&](const std::string& why) {
    throw std::runtime_error(key + ": cannot listen on unix:" + path + ": " + why);
  };
  if (const auto why = make_free(path, key); !why.empty()) fail(why);
  // The file gets the socket's own mode, less the umask: there is no moment in which others may connect.
  ::fchmod(socket, owner_and_group);
  const auto address = address_of(path);
  if (::bind(socket, reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) fail(reason(errno, path, key));
  ::chmod(path.c_str(), owner_and_group);
  if (::listen(socket, backlog) != 0) fail(reason(errno, path, key));
  struct stat made{};
  if (::lstat(path.c_str(), &made) != 0) return;
  device_ = made.st_dev;
  inode_ = made.st_ino;
}

SocketFile::~SocketFile() {
  struct stat there{};
  if (inode_ == 0 || ::lstat(path_.c_str(), &there) != 0) return;
  // A file system gives the number of a removed file to the next one, so the number alone does not tell whose it is.
  const bool same = there.st_dev == device_ && there.st_ino == inode_;
  if (same && try_to_connect(path_) == ECONNREFUSED) ::unlink(path_.c_str());
}

void Arrivals::add(NewClient client) {
  {
    const std::lock_guard lock(mutex_);
    waiting_.push_back(std::move(client));
    if (std::exchange(posted_, true)) return;
  }
  post_start();
}

void Arrivals::post_start() {
  boost::asio::post(loop_, [this] { start_some(); });
}

/// A client that cannot be started takes no other client along.
void Arrivals::start_some() {
  std::array<NewClient, at_once> clients;
  std::size_t count = 0;
  {
    const std::lock_guard lock(mutex_);
    for (; !waiting_.empty() && count < at_once; waiting_.pop_front()) clients[count++] = std::move(waiting_.front());
  }
  std::exception_ptr failure;
  for (auto& client : std::span(clients).first(count)) {
    try {
      start_(std::move(client));
    } catch (...) {
      failure = std::current_exception();
    }
  }
  bool more = false;
  {
    const std::lock_guard lock(mutex_);
    more = posted_ = !waiting_.empty();
  }
  if (more) post_start();
  if (failure) std::rethrow_exception(failure);
}

ConnectionCount place_connection(exchange::Shared& shared, std::span<const std::unique_ptr<exchange::Loop>> loops,
                                 std::size_t most) {
  if (shared.connections.load(std::memory_order_relaxed) >= most) return {};
  return ConnectionCount(**std::ranges::min_element(loops, {}, [](const auto& loop) {
    return loop->connections.load(std::memory_order_relaxed) + 4 * loop->streams.load(std::memory_order_relaxed);
  }));
}

}  // namespace weir::proxy::serve
