#include "proxy/control/client.hpp"

#include <boost/asio/generic/stream_protocol.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/core/tcp_stream.hpp>
#include <boost/beast/http.hpp>
#include <boost/json.hpp>
#include <chrono>
#include <cstdlib>
#include <fstream>
#include <stdexcept>

#include "config/address.hpp"
#include "proxy/net/address.hpp"

namespace weir::proxy::control {
namespace {

namespace asio = boost::asio;
namespace http = boost::beast::http;

constexpr std::chrono::seconds patience{30};

[[noreturn]] void fail(const Admin& admin, const std::string& why) {
  throw NoWeir("no weir answers at " + config::to_text(admin.address) + ": " + why +
               "; --admin names the address of its [admin] listener");
}

config::ListenAddress address_in(const std::string& text) {
  std::string_view address = text;
  if (address.starts_with("http://")) address.remove_prefix(7);
  while (address.ends_with('/')) address.remove_suffix(1);
  auto parsed = config::parse_address(address);
  if (const auto* found = std::get_if<config::ListenAddress>(&parsed)) return *found;
  throw std::runtime_error("\"" + text +
                           "\" is no address of a weir: write it as \"127.0.0.1:9091\", or as \"unix:\" and a path");
}

std::string token_in(const std::string& file) {
  std::ifstream in(file);
  std::string token;
  if (!in || !std::getline(in, token))
    throw std::runtime_error("--token-file \"" + file + "\": cannot read a line; name the file that holds the token");
  while (token.ends_with('\r') || token.ends_with(' ')) token.pop_back();
  if (token.empty()) throw std::runtime_error("--token-file \"" + file + "\": its first line is empty");
  return token;
}

}  // namespace

Admin admin_at(const AdminOptions& options) {
  Admin admin{address_in(options.address)};
  if (!options.token_file.empty()) {
    admin.token = token_in(options.token_file);
  } else if (const char* const token = std::getenv("WEIR_ADMIN_TOKEN")) {
    admin.token = token;
  }
  return admin;
}

Answered ask_admin(const Admin& admin, const std::string& method, const std::string& path, const std::string& body) {
  using Protocol = asio::generic::stream_protocol;
  asio::io_context context;
  boost::beast::basic_stream<Protocol> stream(context);
  http::request<http::string_body> request(http::string_to_verb(method), path, 11);
  request.set(http::field::host, admin.address.unix_path.empty() ? config::to_text(admin.address) : "localhost");
  request.set(http::field::content_type, "application/json");
  if (!admin.token.empty()) request.set(http::field::authorization, "Bearer " + admin.token);
  request.keep_alive(false);
  request.body() = body;
  request.prepare_payload();
  http::response<http::string_body> response;
  boost::beast::flat_buffer buffer;
  boost::system::error_code failed;
  stream.expires_after(patience);
  stream.async_connect(net::listen_endpoint(admin.address), [&](boost::system::error_code error) {
    if (failed = error; error) return;
    http::async_write(stream, request, [&](boost::system::error_code unwritten, std::size_t) {
      if (failed = unwritten; unwritten) return;
      http::async_read(stream, buffer, response,
                       [&](boost::system::error_code unread, std::size_t) { failed = unread; });
    });
  });
  context.run();
  if (failed) fail(admin, failed == boost::beast::error::timeout ? "it took longer than 30 s" : failed.message());
  return {response.result_int(), response.body()};
}

std::string error_message(const Answered& answered) {
  boost::json::error_code error;
  const auto parsed = boost::json::parse(answered.body, error);
  const auto* object = error ? nullptr : parsed.if_object();
  const auto* told = object ? object->if_contains("error") : nullptr;
  const auto* message = told && told->is_object() ? told->get_object().if_contains("message") : nullptr;
  if (message && message->is_string()) return std::string(message->get_string());
  return "weir answered with status " + std::to_string(answered.status);
}

}  // namespace weir::proxy::control
