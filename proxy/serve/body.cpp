#include "proxy/serve/body.hpp"

#include <spdlog/spdlog.h>
#include <zlib.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <memory>
#include <utility>

#include "config/address.hpp"
#include "metrics/wire/request/facts.hpp"
#include "metrics/wire/request/inspector.hpp"

namespace weir::proxy::serve {
namespace {

using http::FieldName;
using metrics::wire::longest_model;

constexpr std::size_t longest_part_head = 4096, longest_boundary = 70;  // RFC 2046, 5.1.1.

/// glibc's search takes linear time whatever it searches in.
std::size_t find(std::string_view in, std::string_view what, std::size_t from) {
  if (from > in.size()) return in.npos;
  const void* const found = ::memmem(in.data() + from, in.size() - from, what.data(), what.size());
  return found == nullptr ? in.npos : static_cast<std::size_t>(static_cast<const char*>(found) - in.data());
}

/// Takes the text before the next semicolon that no quotes enclose off the front of `value`.
std::string_view take_parameter(std::string_view& value) {
  bool quoted = false;
  std::size_t end = 0;
  for (; end < value.size() && (quoted || value[end] != ';'); ++end) {
    if (value[end] == '"') quoted = !quoted;
    if (value[end] == '\\' && quoted && end + 1 < value.size()) ++end;
  }
  const auto taken = value.substr(0, end);
  value.remove_prefix(std::min(end + 1, value.size()));
  return http::trim(taken);
}

/// Returns the parameter of a field such as `form-data; name="model"`, without its quotes. Escapes stay.
std::optional<std::string_view> parameter_of(std::string_view value, std::string_view name) {
  take_parameter(value);
  while (!value.empty()) {
    const auto parameter = take_parameter(value);
    const auto equals = parameter.find('=');
    if (equals == parameter.npos || !http::same_token(http::trim(parameter.substr(0, equals)), name)) continue;
    auto said = http::trim(parameter.substr(equals + 1));
    if (said.size() >= 2 && said.front() == '"' && said.back() == '"') said = said.substr(1, said.size() - 2);
    return said;
  }
  return std::nullopt;
}

/// True if the head of a part, without its first line end, is that of a plain field `model`.
bool is_model_field(std::string_view head) {
  bool names_model = false;
  while (!head.empty()) {
    const auto end = std::min(head.find("\r\n"), head.size());
    const auto line = head.substr(0, end);
    head.remove_prefix(std::min(end + 2, head.size()));
    const auto colon = line.find(':');
    if (colon == line.npos || !http::same_token(line.substr(0, colon), "content-disposition")) continue;
    const auto value = line.substr(colon + 1);
    names_model = parameter_of(value, "name") == "model" && !parameter_of(value, "filename");
  }
  return names_model;
}

bool may_be_model(std::string_view text) {
  return text.size() <= longest_model &&
         std::ranges::none_of(text, [](char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7f; });
}

/// Decodes the beginnings of bodies, one after the other.
class Decoder {
 public:
  Decoder() : ready_(::inflateInit2(&stream_, gzip_or_zlib) == Z_OK) {}
  ~Decoder() {
    if (ready_) ::inflateEnd(&stream_);
  }
  Decoder(const Decoder&) = delete;
  Decoder& operator=(const Decoder&) = delete;

  std::string model_in(std::string_view coded, const std::optional<FormModel>& form, bool maybe_raw) {
    if (const auto model = try_as(gzip_or_zlib, coded, form)) return *model;
    // Some clients send deflate without zlib's frame.
    return maybe_raw ? try_as(raw, coded, form).value_or("") : "";
  }

 private:
  static constexpr int gzip_or_zlib = 15 + 32, raw = -15;  ///< zlib's numbers, with its largest window.
  static constexpr std::size_t step = std::size_t{16} * 1024;

  /// Returns nothing if the body is not of this kind.
  std::optional<std::string> try_as(int kind, std::string_view coded, std::optional<FormModel> form) {
    if (!ready_ || ::inflateReset2(&stream_, kind) != Z_OK) return std::nullopt;
    stream_.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(coded.data()));
    stream_.avail_in = static_cast<uInt>(std::min<std::size_t>(coded.size(), BodyModel::most_decoded));
    metrics::wire::ModelReader json;
    std::size_t size = 0;
    for (int result = Z_OK; result == Z_OK && size < text_.size();) {
      const auto room = std::min(step, text_.size() - size);
      stream_.next_out = reinterpret_cast<Bytef*>(text_.data() + size);
      stream_.avail_out = static_cast<uInt>(room);
      result = ::inflate(&stream_, Z_NO_FLUSH);
      const auto made = room - stream_.avail_out;
      if (result == Z_DATA_ERROR && size + made == 0) return std::nullopt;
      if (form)
        form->read({text_.data(), size + made});
      else
        json.feed({text_.data() + size, made});
      size += made;
      if (auto model = json.model_so_far(); !form && !model.empty()) return model;
    }
    return form ? form->model() : json.model();
  }

  z_stream stream_{};
  const bool ready_;
  std::array<char, BodyModel::most_decoded> text_;
};

/// Few requests have coded bodies, so a thread has its decoder from the first of them on.
Decoder& decoder() {
  thread_local std::unique_ptr<Decoder> one;
  if (!one) one = std::make_unique<Decoder>();
  return *one;
}

}  // namespace

void FormModel::read(std::string_view form) {
  while (!ended_) {
    const std::string_view first = std::string_view(delimiter_).substr(2);  // Nothing need stand before it.
    std::size_t begin = 0;
    if (at_ == 0 && form.size() < first.size() && first.starts_with(form)) return;
    if (at_ == 0 && form.starts_with(first)) {
      begin = first.size();
    } else {
      const auto found = find(form, delimiter_, at_);
      if (found == form.npos) {
        at_ = std::max(at_, form.size() - std::min(form.size(), delimiter_.size() - 1));
        return;
      }
      at_ = found;
      begin = found + delimiter_.size();
    }
    if (!read_part(form, begin)) return;
  }
}

/// Reads the part whose delimiter ends at `begin`. Returns false if more of it has to come first.
bool FormModel::read_part(std::string_view form, std::size_t begin) {
  if (form.size() < begin + 2) return false;
  if (form.substr(begin, 2) == "--") {
    ended_ = true;
    return true;
  }
  const auto head_end = find(form.substr(0, begin + longest_part_head), "\r\n\r\n", begin);
  if (head_end == form.npos && form.size() < begin + longest_part_head) return false;
  if (head_end == form.npos || !is_model_field(form.substr(begin, head_end - begin))) {
    // The delimiter of the next part may begin with the end of an empty head.
    at_ = begin;
    return true;
  }
  const auto text = head_end + 4;
  const auto most = longest_model + 1 + delimiter_.size();
  // The line end before a delimiter is a part of it, and so is that of the head where the field is empty.
  const auto end = find(form.substr(0, text + most), delimiter_, text - 2);
  if (end == form.npos && form.size() < text + most) return false;
  const auto value = end == form.npos || end < text ? std::string_view() : form.substr(text, end - text);
  model_ = end != form.npos && may_be_model(value) ? value : std::string_view();
  at_ = end == form.npos ? text : end;
  return true;
}

BodyModel::BodyModel(const http::RequestHead& head) {
  for (const auto& field : head.fields) {
    if (field.known == FieldName::content_encoding) {
      const bool is_gzip = http::same_token(field.value, "gzip") || http::same_token(field.value, "x-gzip");
      const bool is_only = coding_ == Coding::none;
      if (field.value.empty() || http::same_token(field.value, "identity")) continue;
      coding_ = !is_only                                   ? Coding::unknown
                : is_gzip                                  ? Coding::gzip
                : http::same_token(field.value, "deflate") ? Coding::deflate
                                                           : Coding::unknown;
    } else if (field.known == FieldName::content_type && !form_) {
      auto rest = field.value;
      if (!http::same_token(take_parameter(rest), "multipart/form-data")) continue;
      const auto boundary = parameter_of(field.value, "boundary").value_or("");
      if (!boundary.empty() && boundary.size() <= longest_boundary) form_.emplace(boundary);
    }
  }
}

std::string BodyModel::take(std::string_view body) {
  switch (coding_) {
    case Coding::none:
      return form_ ? form_->model() : std::string();
    case Coding::unknown:
      return {};
    default:
      return decoder().model_in(body, form_, coding_ == Coding::deflate);
  }
}

namespace {

using metrics::series::Limit;

/// The first bytes of a body get so much room.
constexpr std::size_t least_room = 4096;
/// A step of a body ends so many others at most, because each costs a look at all.
constexpr int most_ended_at_once = 8;

/// Warns, at most once an hour, that an address holds its share: clients behind a proxy that weir does not know, or
/// behind a NAT, have one address.
void note_full_share(std::atomic<metrics::Moment>& last_line, const net::PeerAddress& address, metrics::Moment now) {
  auto last = last_line.load(std::memory_order_relaxed);
  if (now - last < std::chrono::hours(1) || !last_line.compare_exchange_strong(last, now)) return;
  spdlog::warn(
      "the requests of the address {} hold as much of limits.buffer_memory as limits.buffer_share allows one address, "
      "and more of them get 503: if it is a proxy's, name it in server.trusted_proxies, so that each of its clients "
      "counts for itself; if many clients share it (NAT), raise limits.buffer_share (said at most once an hour)",
      config::to_text(config::Network{address}));
}

}  // namespace

BodyRoom::BodyRoom(exchange::Loop& loop, ClientConnection& client, const config::Settings& settings,
                   exchange::ClientMessage& message, const exchange::ClientIdentity& identity)
    : loop_(loop),
      client_(client),
      settings_(settings),
      message_(message),
      identity_(identity),
      begun_(std::chrono::steady_clock::now()) {
  lately_.begin(begun_, body_window(settings.limits));
  loop_.uploads.attach(*this);
}

std::optional<Limit> BodyRoom::make_room(std::size_t more) {
  auto& body = message_.body;
  const auto size = body.size() + more;
  if (size <= body.capacity()) return std::nullopt;
  const auto& head = message_.head;
  const auto most = head.framing == http::Framing::length ? static_cast<std::size_t>(head.content_length)
                                                          : settings_.limits.request_body;
  const auto room = std::max(size, std::min(most, std::max(2 * body.capacity(), least_room)));
  if (const auto limit = charge(message_.head_bytes.capacity() + room)) return limit;
  body.reserve(room);
  return std::nullopt;
}

std::optional<Limit> BodyRoom::may_begin() {
  if (!loop_.shared.buffers.spent()) return std::nullopt;
  return charge(message_.head_bytes.capacity() + net::BufferBudget::step);
}

/// Takes so much of limits.buffer_memory, within the shares; slower bodies of the loop end for it. Returns the limit
/// that bit, if there is no room all the same.
std::optional<Limit> BodyRoom::charge(std::size_t bytes) {
  auto& budget_hold = message_.budget_hold;
  if (bytes >= net::BufferBudget::step && !joined_) join_shares();
  const auto& limits = settings_.limits;
  const auto share = static_cast<std::size_t>(static_cast<double>(limits.buffer_memory) * limits.buffer_share);
  // The largest request that is allowed fits into any share.
  if (const auto full = budget_hold.full_share(bytes, std::max(share, limits.request_body + 2 * limits.request_head))) {
    const bool is_of_key = identity_.key && full.get() == &identity_.key->use->held;
    if (!is_of_key) note_full_share(loop_.shared.told.full_share, identity_.address, std::chrono::steady_clock::now());
    return Limit::buffer_share;
  }
  for (int ended = 0; !budget_hold.try_set(bytes); ++ended) {
    if (ended < most_ended_at_once && loop_.uploads.make_room(this, std::chrono::steady_clock::now())) continue;
    // The slow bodies may be on other loops. Each of them looks with its next tick.
    loop_.shared.wants_room.store(true, std::memory_order_relaxed);
    return Limit::buffer_memory;
  }
  return std::nullopt;
}

/// The slowest heads of the loop end for a head that finds no room among them. Bodies do not. A head that is whole is
/// none of them: its bytes may be the beginning of a body.
std::optional<Limit> BodyRoom::pay_for_head(bool is_whole) {
  const auto bytes = client_.unread().capacity();
  if (is_whole) {
    half_head_.set(0);
    return charge(bytes);
  }
  auto& shared = loop_.shared;
  if (!half_head_.has_joined() && has_share()) half_head_.join(shared.addresses.half_heads.of(identity_.address));
  const auto share = static_cast<double>(exchange::half_head_memory(settings_.limits)) * settings_.limits.buffer_share;
  // Each address has room for the largest head.
  const auto most = std::max(static_cast<std::size_t>(share), 2 * settings_.limits.request_head);
  if (half_head_.full_share(bytes, most)) return Limit::buffer_share;
  for (int ended = 0; !half_head_.try_set(bytes); ++ended) {
    if (ended == most_ended_at_once ||
        !loop_.uploads.make_room(this, std::chrono::steady_clock::now(), net::Uploads::Of::heads))
      return Limit::buffer_memory;
  }
  return charge(bytes);
}

/// An address that is not known has no share, and neither has a proxy itself: many clients may stand behind it.
bool BodyRoom::has_share() const {
  const auto& address = identity_.address;
  return address != net::PeerAddress{} && !net::is_loopback(address) &&
         !config::contains(settings_.server.trusted_proxies, address);
}

void BodyRoom::join_shares() {
  joined_ = true;
  auto& hold = message_.budget_hold;
  // The head may have joined the address.
  if (!hold.has_joined() && has_share()) hold.join(loop_.shared.addresses.buffers.of(identity_.address));
  if (const auto& key = identity_.key) hold.join({key->use, &key->use->held});
}

void BodyRoom::give_way() {
  gave_way_ = true;
  half_head_.set(0);
  message_.give_up();
  std::string().swap(client_.unread());
  client_.stop_waiting();
}

}  // namespace weir::proxy::serve
