"""The arithmetic world in Spanish."""

from footfall.worlds._multilingual_words import Wordings

__all__ = ["WORDS"]

WORDS = Wordings(
    names={},
    items={
        "stickers": "pegatinas", "marbles": "canicas", "coins": "monedas", "shells": "conchas", "beads": "cuentas",
        "cards": "cartas", "stamps": "estampillas", "pencils": "lápices", "apples": "manzanas", "buttons": "botones",
        "books": "libros", "stones": "piedras", "nuts": "nueces", "keys": "llaves", "balls": "pelotas", "cups": "tazas",
    },
    she=("ella", "le"),
    he=("él", "le"),
    plain={
        "+": ("{Who} compra {n} más.", "{Who} encuentra {n} {item} más.", "Un amigo {whom} da {n} {item}.",
              "Luego se añaden {n} más.", "{Who} gana {n} {item} en un juego."),
        "-": ("{Who} pierde {n}.", "{Who} regala {n} {item}.", "{Who} vende {n} de ese total.", "Luego se quitan {n}.",
              "{Who} deja {n} {item} en la escuela."),
        "*": ("Luego el número de {item} se multiplica por {n}.", "Luego cada unidad se cambia por {n} {item}.",
              "Tras un trueque {who} tiene {n} veces esa cantidad.", "Pronto {who} tiene {n} veces ese número."),
        "/": ("Luego el número de {item} se divide entre {n}.", "{Who} hace {n} montones iguales y se queda con uno solo.",
              "{Who} reparte todo por igual en {n} bolsas y se queda con una bolsa.",
              "De cada {n} {item}, {who} conserva solo una unidad."),
    },
    tricky={
        "+": ("Eso es {n} menos de lo que {who} tiene {later}.", "Eso está {n} por debajo del número que {who} tiene {later}.",
              "{Who} recupera {n} {item} de un regalo que {who} había hecho hace mucho."),
        "-": ("Eso es {n} más de lo que {who} tiene {later}.", "Eso está {n} por encima del número que {who} tiene {later}.",
              "{Who} devuelve {n} {item} de un regalo que {who} había recibido hace mucho."),
        "*": ("Luego el número de {item} crece por un factor de {n}.", "La cantidad de {item} aumenta por un factor de {n}."),
        "/": ("Eso es {n} veces lo que {who} tiene {later}.", "Eso es {n} veces el número que {who} tiene {later}."),
    },
    later=("al día siguiente", "a la semana siguiente", "a la hora siguiente", "al mes siguiente"),
    openings=("{name} tiene {n} {item}.", "{name} empieza con {n} {item}.", "Al principio {name} tiene {n} {item}."),
    questions=("¿Qué cantidad de {item} tiene {name} ahora?", "¿Qué cantidad de {item} tiene {name} al final?",
               "¿Cuál es el número de {item} ahora?"),
    first=("Primero, %s.", "Empezamos con %s.", "Al principio, %s.", "Para empezar, %s {item}."),
    any=("Luego %s.", "Ahora %s.", "{Who} tiene entonces %s {item}.", "Así que {name} tiene %s {item}.", "Eso da %s.",
         "Obtenemos %s {item}."),
    by_symbol={
        "+": ("Al sumar queda %s.", "En conjunto son %s {item}."),
        "-": ("Al restar queda %s.", "Lo que queda es %s {item}."),
        "*": ("Al multiplicar queda %s.", "El nuevo número es %s {item}."),
        "/": ("Al dividir queda %s.", "Una parte es %s {item}."),
    },
    again=("Espera, debe ser %s.", "No, eso estaba mal: %s.", "Lo hago otra vez: %s.", "Espera, %s {item}."),
    answer="La respuesta es \\boxed{%s}.",
)  # fmt: skip
