#include "proxy/fleet/replica_stream.hpp"

#include <openssl/err.h>

#include <boost/asio/buffer.hpp>
#include <boost/asio/generic/stream_protocol.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/ssl/context.hpp>
#include <boost/asio/ssl/error.hpp>
#include <boost/asio/ssl/stream.hpp>
#include <boost/asio/write.hpp>
#include <boost/beast/core/tcp_stream.hpp>
#include <cerrno>
#include <optional>
#include <utility>

#include "config/quantity.hpp"
#include "proxy/net/tls/context.hpp"
#include "proxy/net/tls/failure.hpp"

namespace weir::proxy::fleet {
namespace {

namespace asio = boost::asio;
using boost::system::error_code;
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

}  // namespace

struct ReplicaStream::Streams {
  Streams(const asio::io_context::executor_type& executor, net::Destination where,
          std::chrono::steady_clock::duration most)
      : to(std::move(where)), limit(most), plain(executor) {}

  const net::Destination to;
  const std::chrono::steady_clock::duration limit;
  error_code failed;
  Plain plain;
  std::optional<Tls> tls;
};

ReplicaStream::ReplicaStream(const asio::io_context::executor_type& executor, net::Destination to,
                             std::chrono::steady_clock::duration limit)
    : streams_(std::make_unique<Streams>(executor, std::move(to), limit)) {
  streams_->plain.expires_after(limit);
}

ReplicaStream::~ReplicaStream() = default;

net::Awaitable<int> ReplicaStream::connect() {
  auto& streams = *streams_;
  error_code error;
  auto token = asio::redirect_error(net::use_awaitable, error);
  const auto endpoint = streams.to.address.endpoint();
  co_await streams.plain.async_connect(endpoint, token);
  if (error) co_return number_of(error);
  if (!streams.to.tls) co_return 0;
  auto ssl = streams.to.tls->begin();
  if (!ssl) co_return ENOMEM;
  // The stream takes what it is given, and frees it at its end.
  streams.tls.emplace(streams.plain, ssl.release());
  co_await streams.tls->async_handshake(asio::ssl::stream_base::client, token);
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
  if (error == asio::error::eof) co_return 0;
  streams.failed = error;
  if (error) co_return -1;
  co_return static_cast<std::ptrdiff_t>(size);
}

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
