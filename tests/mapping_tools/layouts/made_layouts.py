"""Layouts made from a vocabulary: order sheets in nine languages, each with its own dirt, and the wide file that measures the cost."""

from .sheet_layouts import BETWEEN, WORDS, Col, Layout, Sheet

LANGUAGES = ("en", "de", "fr", "es", "nl", "sv", "it", "pl", "pt")
HEADINGS = {
    concept: dict(zip(LANGUAGES, one["headings"].split(";"), strict=True)) for concept, one in WORDS["concepts"].items()
}
FLAT = "order ref p_company p_street p_zip p_city p_country p_from d_company d_street d_zip d_city d_country d_to pack item qty weight value currency"


def made(lang, concepts, changes=None, headings=None):
    """Columns in a language. `changes` gives cells and more words by concept, `headings` other headings."""
    found = []
    for concept in concepts.split():
        known = WORDS["concepts"][concept]
        cells, extra = (changes or {}).get(concept, (known["cells"], ""))
        for word in ("yes", "packs", "marks"):
            cells = cells.replace(f"{{{word}}}", WORDS[word][lang])
        heading = (headings or {}).get(concept, HEADINGS[concept][lang])
        found.append(
            Col(heading, tuple(known["fields"].split("/")), cells, (*known.get("more", "").split(), *extra.split()))
        )
    return tuple(found)


def _one(lang, concepts, name, *, changes=None, headings=None, suffix="csv", **more):
    columns = made(lang, concepts, changes, headings)
    return Layout(name, ("order.create", "order.upsert"), (Sheet(f"{name}.{suffix}", columns, lang=lang, **more),))


DE_TWO = {
    "order": "Auftrag / Nr.", "p_company": "Abholung / Firma", "p_street": "Abholung / Straße", "p_zip": "Abholung / PLZ",
    "p_city": "Abholung / Ort", "p_from": "Abholung / Datum", "d_company": "Zustellung / Firma", "d_street": "Zustellung / Straße",
    "d_zip": "Zustellung / PLZ", "d_city": "Zustellung / Ort", "d_to": "Zustellung / Datum bis", "pack": "Ware / Verpackung",
    "item": "Ware / Bezeichnung", "qty": "Ware / Anzahl", "weight": "Ware / Gewicht (kg)",
}  # fmt: skip
TWO = "order p_company p_street p_zip p_city p_from d_company d_street d_zip d_city d_to pack item qty weight"

MADE = [
    _one("en", f"{FLAT} stack adr x_class x_mail", "loads_uk", changes={"p_from": ("day %d/%m/%Y %H:%M", ""), "d_to": ("day %d/%m/%Y %H:%M", "")}, delimiter=","),
    _one("de", TWO, "ladeliste_kw10", headings=DE_TWO, suffix="xlsx", title="Ladeliste", above=(("Ladeliste KW 10 / 2026",), ()), changes={"qty": ("int 1 20 native", ""), "weight": ("num 5 2400 1 native", ""), "p_from": ("day nativeday", ""), "d_to": ("day native;native;%d.%m.%Y %H:%M", "")}),
    _one("fr", f"{FLAT} contact phone stack x_clerk", "expeditions", encoding="cp1252", per=2, changes={"value": ("num 200 24000 2 comma", ""), "weight": ("num 5 2400 1 comma", "")}, total="Total"),
    _one("es", f"{FLAT} volume x_campaign", "pedidos_marzo", changes={"p_from": ("day %d/%m/%Y;%d-%m-%Y", ""), "weight": ("num 5 2400 1 de kg", "")}, headings={"weight": "Peso bruto"}),
    _one("nl", f"{FLAT} stack x_mail", "zendingen", changes={"order": ("seq {:08}", ""), "d_to": ("day %d-%m-%Y %H:%M", ""), "p_from": ("day %d-%m-%Y %H:%M", "")}),
    _one("sv", f"{FLAT} adr x_class", "orderlista", suffix="xlsx", title="Orderlista", changes={"qty": ("int 1 20 native", ""), "weight": ("num 5 2400 1 native", "dirt=-3@4"), "value": ("num 200 24000 2 native", ""), "p_from": ("day %Y-%m-%d %H:%M", ""), "d_to": ("day %Y-%m-%d %H:%M", "")}, footer=("Utskriven av planering den 2 mars",)),
    _one("it", f"{FLAT} contact x_class x_clerk", "ordini_trasporto", per=3, fill_down=True, suffix="xlsx", changes={"qty": ("int 1 20 native", ""), "weight": ("num 5 2400 1 native", ""), "value": ("num 200 24000 2 native", "")}),
    _one("pl", f"{FLAT} volume stack", "zlecenia", encoding="cp1250", changes={"p_from": ("day %Y-%m-%d", ""), "d_to": ("day %d.%m.%Y", ""), "value": ("num 200 24000 2 comma", ""), "weight": ("num 5 2400 1 comma", ""), "volume": ("num 0.1 9 3 comma", "")}),
    _one("pt", f"{FLAT} phone x_mail x_campaign", "encomendas", above=(("Encomendas a transportar", ""), ("Semana 10", "2026")), total="Total", changes={"value": ("num 200 24000 2 comma", ""), "weight": ("num 5 2400 1 comma", "")}),
]  # fmt: skip


def wide(rows):
    """The file that measures the cost: 30 columns in English, and this many rows."""
    concepts = f"{FLAT} contact phone volume stack adr x_class x_mail x_clerk x_campaign"
    columns = (*made("en", concepts), Col("Batch", ("-",), "seq B{:04}"))
    assert len(columns) == 30, BETWEEN
    return Layout("wide", ("order.create",), (Sheet("wide.csv", columns, rows=rows),))
