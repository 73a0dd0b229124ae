#include "proxy/fleet/replica_stream.hpp"

#include <openssl/err.h>

#include <algorithm>
#include <boost/asio/buffer.hpp>
#include <boost/asio/generic/stream_protocol.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/ssl/context.hpp>
#include <boost/asio/ssl/error.hpp>
#include <boost/asio/ssl/stream.hpp>
#include <boost/asio/write.hpp>
#include <boost/beast/core/tcp_stream.hpp>
#include <cerrno>
#include <list>
#include <optional>
#include <utility>

#include "config/quantity.hpp"
#include "proxy/net/address_race.hpp"
#include "proxy/net/timer.hpp"
#include "proxy/net/tls/context.hpp"
#include "proxy/net/tls/failure.hpp"
#include "proxy/net/tls/socket.hpp"

namespace weir::proxy::fleet {
namespace {

namespace asio = boost::asio;
using boost::system::error_code;
using Clock = std::chrono::steady_clock;
using Plain = boost::beast::basic_stream<asio::generic::stream_protocol, asio::io_context::executor_type>;
using Tls = asio::ssl::stream<Plain&>;

/// Returns the error as net::connect_error_text() takes it.
int number_of(const error_code& error) {
  if (error == boost::beast::error::timeout) return ETIMEDOUT;
  if (error.category() == boost::system::system_category()) return error.value();
  return ECONNABORTED;
}

int number_of_handshake(const error_code& error, SSL* ssl) {
  if (const long verified = SSL_get_verify_result(ssl);
      (SSL_get_verify_mode(ssl) & SSL_VERIFY_PEER) != 0 && verified != X509_V_OK)
    return net::tls::failed_verification(verified);
  if (error == asio::error::eof || error == asio::ssl::error::stream_truncated) return net::tls::ended_within_handshake;
  if (error.category() != asio::error::get_ssl_category()) return number_of(error);
  const auto code = static_cast<unsigned long>(error.value());
  return ERR_GET_LIB(code) == ERR_LIB_SSL ? net::tls::failed_handshake(ERR_GET_REASON(code)) : ECONNABORTED;
}

/// The attempts to connect to the addresses of a replica. Their handlers share it.
struct ConnectRace : std::enable_shared_from_this<ConnectRace> {
  using Socket = Plain::socket_type;

  ConnectRace(const asio::io_context::executor_type& of, net::Destination where)
      : executor(of), to(std::move(where)), order(1 + to.others.size()), news(of) {}

  const net::Address& address(std::size_t i) const { return i == 0 ? to.address : to.others[i - 1]; }

  void begin_due() {
    while (const auto which = order.next(Clock::now())) {
      auto& socket = sockets.emplace_back(executor);
      socket.async_connect(address(*which).endpoint(), [self = shared_from_this(), &socket, at = *which](error_code e) {
        self->ended(socket, at, e);
      });
    }
  }
  void ended(Socket& socket, std::size_t which, const error_code& error) {
    if (over) return;
    if (!error && winner == nullptr) {
      winner = &socket;
      chosen = address(which);
    } else if (error) {
      order.failed(number_of(error), address(which));
    }
    news.cancel();
  }
  void end() {
    over = true;
    error_code ignored;
    for (auto& socket : sockets) socket.close(ignored);
  }

  const asio::io_context::executor_type executor;
  const net::Destination to;
  net::AddressRace order;
  net::Timer news;  ///< Cancelled when an attempt has ended.
  std::list<Socket> sockets;
  Socket* winner = nullptr;
  std::optional<net::Address> chosen;
  bool over = false;
};

/// Ends what still runs, however the wait for it ended.
class EndOfRace {
 public:
  explicit EndOfRace(std::shared_ptr<ConnectRace> race) : race_(std::move(race)) {}
  ~EndOfRace() { race_->end(); }
  EndOfRace(const EndOfRace&) = delete;
  EndOfRace& operator=(const EndOfRace&) = delete;

 private:
  const std::shared_ptr<ConnectRace> race_;
};

}  // namespace

struct ReplicaStream::Streams {
  Streams(const asio::io_context::executor_type& executor, net::Destination where,
          std::chrono::steady_clock::duration most)
      : to(std::move(where)), limit(most), deadline(Clock::now() + most), plain(executor) {}

  const net::Destination to;
  const Clock::duration limit;
  const Clock::time_point deadline;
  std::optional<net::Address> chosen;
  error_code failed;
  unsigned without_data = 0;  ///< So many records have come since the last byte.
  Plain plain;
  std::optional<Tls> tls;

  bool floods() const { return without_data > net::tls::Socket::most_in_all; }
  /// OpenSSL reads on for as long as records without data come. A closed socket brings no more of them.
  static void record_comes(int written, int, int type, const void*, std::size_t, SSL*, void* of) {
    if (written != 0 || type != SSL3_RT_HEADER) return;
    auto& streams = *static_cast<Streams*>(of);
    ++streams.without_data;
    error_code ignored;
    if (streams.floods()) streams.plain.socket().close(ignored);
  }
};

ReplicaStream::ReplicaStream(const asio::io_context::executor_type& executor, net::Destination to,
                             std::chrono::steady_clock::duration limit)
    : streams_(std::make_unique<Streams>(executor, std::move(to), limit)) {
  streams_->plain.expires_after(limit);
}

ReplicaStream::~ReplicaStream() = default;

net::Awaitable<int> ReplicaStream::connect_plain() {
  auto& streams = *streams_;
  const auto race = std::make_shared<ConnectRace>(streams.plain.get_executor(), streams.to);
  const EndOfRace end(race);
  error_code ignored;
  auto token = asio::redirect_error(net::use_awaitable, ignored);
  for (race->begin_due(); race->winner == nullptr && !race->order.lost(); race->begin_due()) {
    if (Clock::now() >= streams.deadline) co_return ETIMEDOUT;
    race->news.expires_at(std::min(race->order.due(), streams.deadline));
    co_await race->news.async_wait(token);
  }
  if (race->winner == nullptr) co_return race->order.error();
  streams.plain.socket() = std::move(*race->winner);
  streams.chosen = race->chosen;
  co_return 0;
}

net::Awaitable<int> ReplicaStream::connect() {
  auto& streams = *streams_;
  const auto failed = co_await connect_plain();
  if (failed != 0) co_return failed;
  if (!streams.to.tls) co_return 0;
  auto ssl = streams.to.tls->begin();
  if (!ssl) co_return ENOMEM;
  error_code error;
  auto token = asio::redirect_error(net::use_awaitable, error);
  // The stream takes what it is given, and frees it at its end.
  streams.tls.emplace(streams.plain, ssl.release());
  co_await streams.tls->async_handshake(asio::ssl::stream_base::client, token);
  SSL* const handle = streams.tls->native_handle();
  SSL_set_msg_callback(handle, &Streams::record_comes);
  SSL_set_msg_callback_arg(handle, &streams);
  if (!error) co_return 0;
  co_return number_of_handshake(error, streams.tls->native_handle());
}

net::Awaitable<bool> ReplicaStream::write(std::string_view bytes) {
  auto& streams = *streams_;
  error_code error;
  auto token = asio::redirect_error(net::use_awaitable, error);
  const auto buffer = asio::buffer(bytes);
  if (streams.tls) {
    co_await asio::async_write(*streams.tls, buffer, token);
  } else {
    co_await asio::async_write(streams.plain, buffer, token);
  }
  streams.failed = error;
  co_return !error;
}

net::Awaitable<std::ptrdiff_t> ReplicaStream::read(std::span<char> into) {
  auto& streams = *streams_;
  error_code error;
  auto token = asio::redirect_error(net::use_awaitable, error);
  const auto buffer = asio::buffer(into.data(), into.size());
  std::size_t size = 0;
  if (streams.tls) {
    size = co_await streams.tls->async_read_some(buffer, token);
  } else {
    size = co_await streams.plain.async_read_some(buffer, token);
  }
  if (streams.floods()) error = asio::error::connection_aborted;
  if (error == asio::error::eof) co_return 0;
  if (!error) streams.without_data = 0;
  streams.failed = error;
  if (error) co_return -1;
  co_return static_cast<std::ptrdiff_t>(size);
}

std::optional<net::Address> ReplicaStream::chosen() const { return streams_->chosen; }

int ReplicaStream::refusal() const {
  const auto& failed = streams_->failed;
  if (failed.category() != asio::error::get_ssl_category()) return 0;
  const int reason = ERR_GET_REASON(static_cast<unsigned long>(failed.value()));
  return net::tls::refuses_certificate(reason) ? net::tls::failed_handshake(reason) : 0;
}

std::string ReplicaStream::failure() const {
  const auto& failed = streams_->failed;
  if (const int refused = refusal()) return net::tls::failure_text(refused);
  if (failed != boost::beast::error::timeout) return "its connection broke off: " + failed.message();
  return "it did not come within " + config::format_number(std::chrono::duration<double>(streams_->limit).count()) +
         " s";
}

}  // namespace weir::proxy::fleet
