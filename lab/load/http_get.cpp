#include "lab/load/http_get.hpp"

#include <boost/asio/connect.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/http.hpp>
#include <stdexcept>

#include "lab/json_fields.hpp"
#include "lab/load/target.hpp"

namespace weir::lab::load {
namespace {

namespace asio = boost::asio;
namespace http = boost::beast::http;
using asio::ip::tcp;
using boost::system::error_code;

/// Looks the name up, connects, sends and reads. Each step starts the next, and the first error ends it.
class Get {
 public:
  Get(asio::io_context& io, const Target& target)
      : target_(target), resolver_(io), socket_(io), request_(http::verb::get, target.prefix, 11) {
    request_.set(http::field::host, target.authority);
    request_.set(http::field::connection, "close");
    parser_.body_limit(64 * 1024 * 1024);
  }

  void start() {
    resolver_.async_resolve(target_.host, target_.port,
                            [this](error_code ec, const tcp::resolver::results_type& found) {
                              if (ended(ec)) return;
                              asio::async_connect(socket_, found, [this](error_code failed, const tcp::endpoint&) {
                                if (!ended(failed)) send();
                              });
                            });
  }

  bool done() const { return done_; }
  error_code error() const { return error_; }
  unsigned status() const { return parser_.get().result_int(); }
  std::string body() { return std::move(parser_.get().body()); }

 private:
  void send() {
    http::async_write(socket_, request_, [this](error_code ec, std::size_t) {
      if (ended(ec)) return;
      http::async_read(socket_, buffer_, parser_, [this](error_code failed, std::size_t) {
        error_ = failed;
        done_ = true;
      });
    });
  }

  bool ended(error_code ec) {
    error_ = ec;
    done_ = ec.failed();
    return done_;
  }

  const Target& target_;
  tcp::resolver resolver_;
  tcp::socket socket_;
  http::request<http::empty_body> request_;
  boost::beast::flat_buffer buffer_;
  http::response_parser<http::string_body> parser_;
  error_code error_;
  bool done_ = false;
};

}  // namespace

std::string http_get(const std::string& url, std::chrono::seconds timeout) {
  Target target = target_of(url);
  if (target.prefix.empty()) target.prefix = "/";
  asio::io_context io{1};
  Get get(io, target);
  get.start();
  io.run_for(timeout);
  if (!get.done()) throw std::runtime_error(url + " did not answer within " + std::to_string(timeout.count()) + " s");
  if (get.error()) throw std::runtime_error("cannot read " + url + ": " + get.error().message());
  if (get.status() != 200) throw std::runtime_error(url + " answered with status " + std::to_string(get.status()));
  return get.body();
}

std::vector<std::string> model_ids(const std::string& body) {
  std::vector<std::string> ids;
  const auto document = object_of(body);
  const boost::json::array* data = document ? array_at(*document, "data") : nullptr;
  if (!data) return ids;
  for (const boost::json::value& model : *data) {
    if (!model.is_object()) continue;
    const std::string id = text_of(model.get_object(), "id");
    if (!id.empty()) ids.push_back(id);
  }
  return ids;
}

}  // namespace weir::lab::load
