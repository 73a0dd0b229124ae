#include "proxy/serve/listeners.hpp"

#include <fcntl.h>

#include <algorithm>
#include <stdexcept>
#include <utility>

#include "config/address.hpp"

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

}  // namespace weir::proxy::serve
